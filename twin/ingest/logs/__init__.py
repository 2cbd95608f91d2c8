"""Frames of taps: what brokers wrote in their logs. One file a kind of frame."""
