//! Vectorised exp, ln, softplus, sigmoid and activations with their derivatives.
