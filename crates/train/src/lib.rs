//! Settings, stages, optimisers, schedulers, history and resume of a training run.
