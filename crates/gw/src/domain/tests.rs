//! The expected values were computed with dingo 0.10.3's own domain classes.

use serde_json::json;

use super::*;

fn uniform(f_min: f64, f_max: f64, delta_f: f64) -> Domain {
    Domain::Uniform(UniformFrequencyDomain::new(f_min, f_max, delta_f).unwrap())
}

fn frequency_sum(domain: &Domain) -> f64 {
    domain
        .sample_frequencies()
        .iter()
        .copied()
        .map(f64::from)
        .sum()
}

/// The domain of dingo's transformer example.
fn t1() -> Domain {
    let settings = json!({
        "type": "MultibandedFrequencyDomain",
        "nodes": [20.0, 38.0, 50.0, 66.0, 82.0, 1810.0],
        "delta_f_initial": 0.125,
        "base_domain": {"type": "FrequencyDomain", "f_min": 20.0, "f_max": 1809.875, "delta_f": 0.125},
    });
    Domain::from_settings(&settings).unwrap()
}

/// The domain of dingo's binary neutron star example.
fn neutron_stars() -> Domain {
    let settings = json!({
        "type": "MultibandedFrequencyDomain",
        "nodes": [20.0, 23.109375, 33.609375, 43.984375, 55.984375, 68.984375, 83.484375, 97.984375, 2047.984375],
        "delta_f_initial": 0.0078125,
        "base_domain": {
            "type": "UniformFrequencyDomain", "f_min": 20.0, "f_max": 2048.0, "delta_f": 0.0078125,
        },
    });
    Domain::from_settings(&settings).unwrap()
}

fn bands(domain: &Domain) -> &[usize] {
    match domain {
        Domain::Multibanded(domain) => domain.band_bins(),
        Domain::Uniform(_) => &[],
    }
}

#[test]
fn uniform_domains_have_dingos_bins() {
    let domain = uniform(20.0, 1024.0, 0.125);
    assert_eq!(
        (domain.bins(), domain.min_index(), domain.max_index()),
        (8193, 160, 8192)
    );
    // One unit in the last place: dingo divides first and takes the root afterwards.
    assert!((domain.noise_std()[0] - 2f64.sqrt()).abs() <= 3e-16);
    assert_eq!(frequency_sum(&domain), 4194816.0);
    let domain = uniform(20.0, 512.0, 0.25);
    assert_eq!(
        (domain.bins(), domain.min_index(), domain.max_index()),
        (2049, 80, 2048)
    );
    assert_eq!(domain.noise_std(), [1.0]);
    // A step that is no binary fraction: every frequency is rounded as NumPy's `linspace` rounds it.
    let mut domain = uniform(10.0, 100.0, 0.1);
    assert_eq!(
        (domain.bins(), domain.min_index(), domain.max_index()),
        (1001, 100, 1000)
    );
    assert_eq!(frequency_sum(&domain), 50050.00000002235);
    assert_eq!(domain.noise_std(), [1.5811388300841895]);
    let cut = domain
        .update(&json!({"f_min": 20.3, "f_max": 50.7}))
        .unwrap();
    assert_eq!(
        cut,
        Cut {
            stored: 1001,
            start: 0,
            end: 508,
            fill: 203
        }
    );
    assert_eq!(
        (domain.bins(), domain.min_index(), domain.max_index()),
        (508, 203, 507)
    );
    assert_eq!(frequency_sum(&domain), 12877.799999259412);
    assert_eq!(domain.sample_frequencies()[254], 25.4);
}

#[test]
fn multibanded_domains_have_dingos_bins() {
    let domain = t1();
    assert_eq!(
        (domain.bins(), domain.min_index(), domain.max_index()),
        (1104, 0, 1103)
    );
    assert_eq!(bands(&domain), [144, 48, 32, 16, 864]);
    assert_eq!((domain.f_min(), domain.f_max()), (20.0, 1809.875));
    assert_eq!(frequency_sum(&domain), 826603.0);
    assert_eq!(domain.sample_frequencies()[552], 706.9375);
    let noise = domain.noise_std();
    assert_eq!(
        (noise[0], noise[1103]),
        (1.4142135381698608, 0.3535533845424652)
    );
    let domain = neutron_stars();
    assert_eq!(domain.bins(), 3735);
    assert_eq!(bands(&domain), [398, 672, 332, 192, 104, 58, 29, 1950]);
    assert_eq!(frequency_sum(&domain), 2155970.03515625);
}

#[test]
fn narrowing_a_multibanded_domain_keeps_whole_bins() {
    let mut domain = t1();
    let cut = domain
        .update(&json!({"f_min": 30.0, "f_max": 1024.0}))
        .unwrap();
    assert_eq!(
        cut,
        Cut {
            stored: 1104,
            start: 80,
            end: 711,
            fill: 0
        }
    );
    assert_eq!(bands(&domain), [64, 48, 32, 16, 471]);
    assert_eq!((domain.f_min(), domain.f_max()), (30.0, 1023.875));
    assert_eq!(frequency_sum(&domain), 267751.5625);
    let expected = json!({
        "type": "MultibandedFrequencyDomain", "nodes": [30.0, 38.0, 50.0, 66.0, 82.0, 1024.0],
        "delta_f_initial": 0.125,
        "base_domain": {"type": "UniformFrequencyDomain", "f_min": 30.0, "f_max": 1024.0, "delta_f": 0.125},
    });
    assert_eq!(domain.settings(), expected);
    let error = domain
        .update(&json!({"f_min": 32.0}))
        .unwrap_err()
        .to_string();
    assert!(error.contains("only once"), "{error}");
    // What is written rebuilds the same domain, and an update to the same settings changes nothing.
    let rebuilt = Domain::from_settings(&domain.settings()).unwrap();
    assert_eq!(rebuilt, domain);
    assert_eq!(domain.update(&expected).unwrap().bins(), 631);
    let mut domain = neutron_stars();
    let cut = domain
        .update(&json!({"f_min": 23.0, "f_max": 1536.0}))
        .unwrap();
    assert_eq!((cut.start, cut.end), (384, 3223));
    assert_eq!(bands(&domain), [14, 672, 332, 192, 104, 58, 29, 1438]);
    assert_eq!(frequency_sum(&domain), 1230221.53515625);
    // The whole settings of the narrowed domain are an update of the wide one too.
    let mut other = neutron_stars();
    assert_eq!(other.update(&domain.settings()).unwrap(), cut);
    assert_eq!(other, domain);
}

#[test]
fn decimation_averages_the_base_bins() {
    let Domain::Multibanded(domain) = t1() else {
        panic!("it is multibanded");
    };
    let data: Vec<f64> = (0..domain.base().bins())
        .map(|k| (k as f64 * 0.37).sin())
        .collect();
    let averages = domain.decimate(&data).unwrap();
    // Sums of at most 16 terms in another order: 1e-12 is far above their rounding.
    assert!((averages.iter().sum::<f64>() + 2.479969652843971).abs() < 1e-12);
    for (bin, expected) in [
        (0, 0.47085565),
        (150, -0.74879106),
        (200, -0.15845001),
        (1103, 0.05676147),
    ] {
        assert!((averages[bin] - expected).abs() < 1e-8, "bin {bin}");
    }
    let from_f_min = domain.decimate(&data[domain.base().min_index()..]).unwrap();
    assert_eq!(from_f_min, averages);
    let error = domain.decimate(&data[..100]).unwrap_err().to_string();
    assert!(
        error.contains("data of 100 bins do not fit the base domain of 14480 bins"),
        "{error}"
    );
}

#[test]
fn names_and_settings_go_around() {
    for name in ["UniformFrequencyDomain", "FrequencyDomain", "FD"] {
        let settings = json!({"type": name, "f_min": 20, "f_max": 512.0, "delta_f": 0.25, "window_factor": null});
        assert_eq!(
            Domain::from_settings(&settings).unwrap(),
            uniform(20.0, 512.0, 0.25)
        );
    }
    let domain = uniform(20.0, 512.0, 0.25);
    assert_eq!(Domain::from_settings(&domain.settings()).unwrap(), domain);
    let grid = domain.grid().unwrap();
    assert_eq!(
        (grid.bins(), grid.first(), grid.noise_std()[0]),
        (2049, 80, 1.0)
    );
    let grid = t1().grid().unwrap();
    let frequencies: Vec<f32> = grid.frequencies().iter().map(|&f| f as f32).collect();
    assert_eq!(frequencies, t1().sample_frequencies());
}

#[test]
fn narrowing_only_ever_narrows() {
    let refuse = |update: Value, part: &str| {
        let mut domain = uniform(20.0, 512.0, 0.25);
        let before = domain.clone();
        let error = domain.update(&update).unwrap_err().to_string();
        assert!(error.contains(part), "{update}: {error}");
        assert_eq!(domain, before);
    };
    refuse(
        json!({"f_min": 10.0}),
        "the range [10, 512] Hz is not inside the range [20, 512] Hz",
    );
    refuse(
        json!({"f_max": 1024.0}),
        "the range [20, 1024] Hz is not inside",
    );
    refuse(
        json!({"f_min": 30.1}),
        "30.1 Hz is no point of the grid in steps of 0.25 Hz; the nearest are 30 and 30.25",
    );
    refuse(
        json!({"f_min": 100.0, "f_max": 50.0}),
        "f_min = 100 must be less than f_max = 50",
    );
    refuse(
        json!({"f_min": 512.0}),
        "f_min = 512 must be less than f_max = 512",
    );
    refuse(
        json!({"delta_f": 0.5}),
        "cannot change delta_f from 0.25 to 0.5",
    );
    refuse(json!({"type": "MFD"}), "cannot change its type");
    refuse(
        json!({"fmin": 30.0}),
        "unknown setting `fmin`, expected type, f_min, f_max, delta_f",
    );
    refuse(
        json!({"f_min": "30"}),
        "`f_min` must be a number, got \"30\"",
    );
    refuse(json!([30.0]), "must be a dictionary");
    let mut domain = uniform(20.0, 512.0, 0.25);
    assert_eq!(domain.update(&json!({})).unwrap(), domain.cut());
    for (update, part) in [
        (
            json!({"f_min": 10.0}),
            "f_min = 10 is outside [20, 1808] Hz",
        ),
        (json!({"f_max": 2000.0}), "f_max = 2000 is outside"),
        (json!({"nodes": [1.0]}), "unknown setting `nodes`"),
        (
            uniform(20.0, 512.0, 0.25).settings(),
            "unknown setting `f_min`",
        ),
    ] {
        let error = t1().update(&update).unwrap_err().to_string();
        assert!(error.contains(part), "{update}: {error}");
    }
}

#[test]
fn settings_that_make_no_domain_are_refused() {
    let refuse = |settings: Value, part: &str| {
        let error = Domain::from_settings(&settings).unwrap_err().to_string();
        assert!(error.contains(part), "{settings}: {error}");
    };
    let with = |f_min: f64, f_max: f64, delta_f: f64| json!({"type": "FD", "f_min": f_min, "f_max": f_max, "delta_f": delta_f});
    refuse(json!(3), "must be a dictionary");
    refuse(json!({"f_min": 20.0}), "have no `type`");
    refuse(
        json!({"type": "TimeDomain"}),
        "type `TimeDomain` is not supported",
    );
    refuse(
        json!({"type": "FD", "f_min": 20.0, "f_max": 512.0}),
        "`delta_f` is missing, there are: type, f_min, f_max",
    );
    refuse(with(20.0, 512.0, 0.0), "delta_f > 0");
    refuse(with(20.0, 512.0, -1.0), "delta_f > 0");
    refuse(with(20.0, 10.0, 0.25), "f_min < f_max");
    refuse(with(-1.0, 10.0, 0.25), "0 <= f_min");
    refuse(with(20.0, 1e12, 1e-3), "at most 4e6 bins");
    refuse(
        with(20.0, 512.1, 0.25),
        "f_max = 512.1 is no multiple of delta_f = 0.25",
    );
    let multibanded = |nodes: Value, first: f64| json!({"type": "MFD", "nodes": nodes, "delta_f_initial": first, "base_domain": with(20.0, 100.0, 0.25)});
    refuse(
        multibanded(json!([20.0]), 0.25),
        "expected 2 to 33 nodes, got 1",
    );
    refuse(multibanded(json!([30.0, 20.0]), 0.25), "nodes must rise");
    refuse(multibanded(json!([20.0, 1e9]), 0.25), "nodes must rise");
    refuse(multibanded(json!([20.0, 1e300]), 0.25), "nodes must rise");
    refuse(
        multibanded(json!([20.0, 50.0]), 0.1),
        "must not be smaller than the base domain's",
    );
    refuse(multibanded(json!([20.0, 50.0]), 1e30), "no bin fits");
    refuse(
        multibanded(json!("20"), 0.25),
        "`nodes` must be a list of numbers",
    );
    refuse(
        json!({"type": "MFD", "nodes": [20.0, 30.0], "delta_f_initial": 0.25}),
        "must be a dictionary, got null",
    );
    refuse(
        json!({"type": "MFD", "nodes": [20.0, 30.0], "delta_f_initial": 0.25, "base_domain": t1().settings()}),
        "must be a UniformFrequencyDomain",
    );
}
