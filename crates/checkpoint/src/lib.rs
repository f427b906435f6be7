//! Plain-key checkpoints: one model in memory, safetensors on disk.
