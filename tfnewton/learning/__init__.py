"""WHAT TRAINING FINDS: tasks, models, the training loop and the experiments of the paper."""
