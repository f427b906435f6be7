//! Simulation sets, observations, standardisation, the train/test split and batches.
