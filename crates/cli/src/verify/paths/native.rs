//! The native sampler: embedding, density and samples in pure Rust.

use dunnart_flow::plan::{Sampler, Scalar};

use super::network::Inputs;
use crate::verify::Result;
use crate::verify::case::{Case, Kind, Precision};
use crate::verify::paths::{Computed, Path, failed};

/// The network with everything constant folded into its weights.
pub(super) struct Native;

impl Path for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn available(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn takes(&self, case: &Case) -> bool {
        matches!(case.kind, Kind::Flow | Kind::Posterior)
    }

    fn covers(&self, _: &Case, key: &str) -> bool {
        key.starts_with("eval.") || key.starts_with("sample.")
    }

    fn compute(&self, case: &Case, precision: Precision) -> Result<Computed> {
        match precision {
            Precision::Single => compute::<f32>(case),
            Precision::Double => compute::<f64>(case),
        }
    }
}

fn compute<T: Scalar>(case: &Case) -> Result<Computed> {
    let (architecture, layout) = case.network()?;
    let fail = |error| failed(case, error);
    let sampler = Sampler::new(architecture, layout, &case.state::<T>()?).map_err(fail)?;
    let inputs = Inputs::<T>::read(case)?;
    let contexts = sampler
        .embed(&inputs.observation, &inputs.context_parameters)
        .map_err(fail)?;
    let (mut noise, mut log_prob) = (inputs.theta.clone(), vec![T::ZERO; inputs.rows()]);
    sampler
        .log_prob(&inputs.theta, &contexts, &mut log_prob, Some(&mut noise))
        .map_err(fail)?;
    let mut computed = Computed::default();
    if case.kind == Kind::Posterior {
        computed.reals("eval.context", &contexts);
    }
    computed.reals("eval.log_prob", &log_prob);
    computed.reals("eval.noise", &noise);
    let drawn: Vec<T> = case.numbers("sample.noise")?;
    let mut samples = drawn.clone();
    sampler
        .inverse_many(&drawn, &contexts, &mut samples, &mut log_prob)
        .map_err(fail)?;
    computed.reals("sample.theta", &samples);
    computed.reals("sample.log_prob", &log_prob);
    Ok(computed)
}
