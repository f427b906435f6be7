//! The network in libtorch operations, with the spline's kernels or in tensor operations throughout.

use crate::verify::Result;
use crate::verify::case::{Case, Precision};
use crate::verify::paths::{Computed, Path};

/// The eager network and its spline; there without libtorch too, to say that it needs it.
pub(super) struct Eager {
    name: &'static str,
    #[cfg(feature = "torch")]
    spline: dunnart_flow::eager::SplinePath,
}

impl Eager {
    /// The spline's kernels as a function of the autograd graph.
    pub(super) fn fused() -> Self {
        Self {
            name: "eager",
            #[cfg(feature = "torch")]
            spline: dunnart_flow::eager::SplinePath::Fused,
        }
    }

    /// Tensor operations and their own gradients throughout.
    pub(super) fn tensor() -> Self {
        Self {
            name: "eager-tensor-spline",
            #[cfg(feature = "torch")]
            spline: dunnart_flow::eager::SplinePath::Tensor,
        }
    }
}

impl Path for Eager {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self) -> std::result::Result<(), String> {
        if cfg!(feature = "torch") {
            Ok(())
        } else {
            Err("this program was built without libtorch (feature `torch`)".into())
        }
    }

    fn takes(&self, _: &Case) -> bool {
        true
    }

    fn covers(&self, _: &Case, key: &str) -> bool {
        !key.starts_with("init.state.")
    }

    #[cfg(feature = "torch")]
    fn compute(&self, case: &Case, precision: Precision) -> Result<Computed> {
        use super::{eager_network, eager_spline};
        use crate::verify::case::Kind;
        match (case.kind, precision) {
            (Kind::Spline, Precision::Single) => eager_spline::compute::<f32>(case, self.spline),
            (Kind::Spline, Precision::Double) => eager_spline::compute::<f64>(case, self.spline),
            (_, Precision::Single) => eager_network::compute::<f32>(case, self.spline),
            (_, Precision::Double) => eager_network::compute::<f64>(case, self.spline),
        }
    }

    #[cfg(not(feature = "torch"))]
    fn compute(&self, case: &Case, _: Precision) -> Result<Computed> {
        Err(super::failed(case, "built without libtorch"))
    }
}
