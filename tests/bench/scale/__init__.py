"""Parts of ``fleet_scale``: a simulated fleet, the programs that watch it, what they take."""
