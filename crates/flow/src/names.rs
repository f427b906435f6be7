//! The reference's state-dict keys: the one place where they are spelled.
//!
//! Keys are plain: `module.` and `_orig_mod.` never occur here; crate `checkpoint` strips them.

/// Prefix of the reduced-basis projection.
pub(crate) fn reduced_basis(with_context_parameters: bool) -> &'static str {
    if with_context_parameters {
        "embedding_net.enets.0.0"
    } else {
        "embedding_net.0"
    }
}

/// Prefix of the embedding's residual network.
pub(crate) fn embedding_network(with_context_parameters: bool) -> &'static str {
    if with_context_parameters {
        "embedding_net.enets.0.1"
    } else {
        "embedding_net.1"
    }
}

/// Name part by which the reduced-basis layers are frozen.
pub(crate) const REDUCED_BASIS_LAYERS: &str = "layers_rb";

/// Prefix of the permutation and the LU transform before spline step `step`; `steps` names the last pair.
pub(crate) fn linear(step: usize, steps: usize) -> String {
    if step == steps {
        format!("flow._transform._transforms.{step}")
    } else {
        format!("flow._transform._transforms.{step}._transforms.0")
    }
}

/// Key of the permutation under a [`linear`] prefix.
pub(crate) fn permutation(linear: &str) -> String {
    format!("{linear}._transforms.0._permutation")
}

/// Prefix of the LU transform under a [`linear`] prefix.
pub(crate) fn lu(linear: &str) -> String {
    format!("{linear}._transforms.1")
}

/// Prefix of spline step `step`.
pub(crate) fn spline_step(step: usize) -> String {
    format!("flow._transform._transforms.{step}._transforms.1")
}

/// Name of the conditioner of a coupling step, below [`spline_step`].
pub(crate) const COUPLING_CONDITIONER: &str = "transform_net";

/// Name of the conditioner of an autoregressive step, below [`spline_step`].
pub(crate) const MASKED_CONDITIONER: &str = "autoregressive_net";

/// Name of the context-free spline of the identity features, below [`spline_step`].
pub(crate) const UNCONDITIONAL: &str = "unconditional_transform";
