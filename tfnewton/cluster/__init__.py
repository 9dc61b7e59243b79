"""Where work runs: in this process, in worker processes of this machine, or on a dask scheduler that exists."""
