"""What Spark keeps: keys of the state, the files of workers, checkpoints."""
