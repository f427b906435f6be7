//! The native sampler: embedding, density and samples in pure Rust.

use dunnart_flow::plan::{Sampler, Scalar};

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
    let part = |key: &str, width: usize| -> Result<Vec<T>> {
        if width == 0 {
            Ok(Vec::new())
        } else {
            case.numbers(key)
        }
    };
    let observation = match case.kind {
        Kind::Posterior => "input.strain",
        _ => "input.context",
    };
    let observation = part(observation, architecture.observation())?;
    let more = part("input.gnpe_proxies", architecture.context_parameters())?;
    let contexts = sampler.embed(&observation, &more).map_err(fail)?;
    let theta: Vec<T> = case.numbers("input.theta")?;
    let (mut noise, mut log_prob) = (theta.clone(), vec![T::ZERO; case.rows()?]);
    sampler
        .log_prob(&theta, &contexts, &mut log_prob, Some(&mut noise))
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
