"""Whether disks have room for what brokers receive: the disks, and the verdict."""
