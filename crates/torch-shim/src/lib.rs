//! The little C++ that tch lacks: fused optimisers, custom functions, autocast, matmul precision.
