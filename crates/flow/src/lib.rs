//! Neural spline flows: architecture, parameters, the network as a compiled plan and in libtorch.
