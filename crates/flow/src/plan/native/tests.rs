//! Evaluation and sampling against the reference's values.

use crate::NetworkState;
use crate::plan::golden::{Case, cases, judge, relative_error, widen};
use crate::plan::{Sampler, Scalar};

/// What a sampler computes for a case's inputs, in double precision.
struct Results {
    context: Vec<f64>,
    log_prob: Vec<f64>,
    noise: Vec<f64>,
    theta: Vec<f64>,
    sample_log_prob: Vec<f64>,
}

fn sampler<T: Scalar>(case: &Case) -> Sampler<T> {
    let state: NetworkState<T> = case.state("state.");
    Sampler::new(&case.architecture, &case.layout, &state).unwrap()
}

fn compute<T: Scalar>(case: &Case) -> Results {
    let sampler = sampler::<T>(case);
    let theta: Vec<T> = case.cast("input.theta");
    let count = theta.len() / sampler.parameters();
    let context = match case.find("input.strain") {
        Some(_) => {
            let proxies = case.cast::<T>("input.gnpe_proxies");
            sampler.embed(&case.cast("input.strain"), &proxies).unwrap()
        }
        None => sampler.embed(&case.cast("input.context"), &[]).unwrap(),
    };
    let (mut log_prob, mut noise) = (vec![T::ZERO; count], theta.clone());
    sampler
        .log_prob(&theta, &context, &mut log_prob, Some(&mut noise))
        .unwrap();
    let drawn: Vec<T> = case.cast("sample.noise");
    let (mut samples, mut sample_log_prob) = (drawn.clone(), vec![T::ZERO; count]);
    sampler
        .inverse_many(&drawn, &context, &mut samples, &mut sample_log_prob)
        .unwrap();
    Results {
        context: widen(&context),
        log_prob: widen(&log_prob),
        noise: widen(&noise),
        theta: widen(&samples),
        sample_log_prob: widen(&sample_log_prob),
    }
}

#[test]
fn evaluation_agrees_with_the_reference() {
    let mut failures = Vec::new();
    let mut checks = 0;
    for case in cases("flow").iter().chain(&cases("posterior")) {
        let exact = compute::<f64>(case);
        let results = if case.double {
            compute::<f64>(case)
        } else {
            compute::<f32>(case)
        };
        let mut check = |name: &str, actual: &[f64], exact: &[f64]| {
            if case.find(name).is_some() {
                checks += 1;
                // Where the file has exact values, they are what counts.
                let own = case
                    .find(&format!("exact.{name}"))
                    .is_none()
                    .then_some(exact);
                failures.extend(judge(case, name, actual, own));
            }
        };
        check("eval.context", &results.context, &exact.context);
        check("eval.log_prob", &results.log_prob, &exact.log_prob);
        check("eval.noise", &results.noise, &exact.noise);
        check("sample.theta", &results.theta, &exact.theta);
        check(
            "sample.log_prob",
            &results.sample_log_prob,
            &exact.sample_log_prob,
        );
    }
    assert!(checks >= 21 * 4, "{checks}");
    assert!(
        failures.is_empty(),
        "{checks} checks\n{}",
        failures.join("\n")
    );
}

/// One observation folded in gives what the same context in every row gives.
#[test]
fn folding_one_observation_changes_nothing() {
    for case in cases("flow")
        .iter()
        .chain(&cases("posterior"))
        .filter(|c| c.double)
    {
        let sampler = sampler::<f64>(case);
        let (d, c) = (sampler.parameters(), sampler.context());
        let noise = case.get("sample.noise");
        let count = noise.len() / d;
        let context: Vec<f64> = (0..c).map(|i| 0.3 * i as f64 - 1.0).collect();
        let contexts = context.repeat(count);
        let mut many = (vec![0.0; count * d], vec![0.0; count]);
        sampler
            .inverse_many(noise, &contexts, &mut many.0, &mut many.1)
            .unwrap();
        let mut one = (vec![0.0; count * d], vec![0.0; count]);
        let prepared = sampler.prepare(&context).unwrap();
        prepared.inverse(noise, &mut one.0, &mut one.1).unwrap();
        assert!(relative_error(&one.0, &many.0) < 1e-12, "{}", case.file);
        assert!(relative_error(&one.1, &many.1) < 1e-12, "{}", case.file);
        let (mut log_prob, mut back) = (vec![0.0; count], vec![0.0; count * d]);
        prepared
            .log_prob(&one.0, &mut log_prob, Some(&mut back))
            .unwrap();
        assert!(relative_error(&back, noise) < 1e-9, "{}", case.file);
        assert!(relative_error(&log_prob, &one.1) < 1e-9, "{}", case.file);
    }
}

/// Rows do not know where in a call they stand, nor how many threads there are.
#[test]
fn results_depend_neither_on_threads_nor_on_tiles() {
    let case = &cases("flow")[3];
    let sampler = sampler::<f32>(case);
    let (d, c) = (sampler.parameters(), sampler.context());
    let repeat = |values: Vec<f32>, width: usize| -> Vec<f32> {
        values.iter().copied().cycle().take(1300 * width).collect()
    };
    let noise = repeat(case.cast("sample.noise"), d);
    let contexts = repeat(case.cast("input.context"), c);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let mut out = (vec![0.0; noise.len()], vec![0.0; noise.len() / d]);
        pool.install(|| sampler.inverse_many(&noise, &contexts, &mut out.0, &mut out.1))
            .unwrap();
        out
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(3));
}

#[test]
fn slices_that_do_not_fit_are_named() {
    let case = &cases("flow")[0];
    let sampler = sampler::<f64>(case);
    let (d, c) = (sampler.parameters(), sampler.context());
    let mut out = (vec![0.0; 2 * d], vec![0.0; 2]);
    let noise = vec![0.0; 2 * d];
    let error = sampler.inverse_many(&noise, &vec![0.0; 2 * c - 1], &mut out.0, &mut out.1);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("contexts: expected 12 elements, got 11")
    );
    let error = sampler.inverse_many(&noise[1..], &vec![0.0; 2 * c], &mut out.0, &mut out.1);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("expected 5 elements, got 9")
    );
    assert!(sampler.prepare(&[]).is_err());
}
