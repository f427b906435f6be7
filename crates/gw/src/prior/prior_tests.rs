use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(text: &str) -> crate::Result<Prior> {
    Prior::from_text("x", text)
}

fn reason(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn bilbys_spellings() {
    let uniform = |minimum, maximum| Prior::Uniform { minimum, maximum };
    let law = |alpha, minimum, maximum| Prior::PowerLaw {
        alpha,
        minimum,
        maximum,
    };
    for (text, expected) in [
        (
            "bilby.core.prior.Uniform(minimum=-0.10, maximum=0.10, name='geocent_time')",
            uniform(-0.1, 0.1),
        ),
        (
            "Uniform(0, 2*np.pi, 'ra', boundary=\"periodic\")",
            uniform(0.0, 2.0 * PI),
        ),
        (
            "Uniform( maximum = 1e-3 , minimum = -1e-3, )",
            uniform(-1e-3, 1e-3),
        ),
        (
            "bilby.core.prior.analytical.Uniform(name='t', minimum=1, maximum=2)",
            uniform(1.0, 2.0),
        ),
        (
            "Uniform(1, 2, None, latex_label='$t$', unit=None)",
            uniform(1.0, 2.0),
        ),
        (
            "bilby.core.prior.PowerLaw(alpha=2, minimum=100.0, maximum=1000.0, name='luminosity_distance')",
            law(2.0, 100.0, 1000.0),
        ),
        ("PowerLaw(2, 1, 10)", law(2.0, 1.0, 10.0)),
        ("LogUniform(minimum=1, maximum=10)", law(-1.0, 1.0, 10.0)),
        (
            "bilby.core.prior.Cosine(minimum=-np.pi/2, maximum=np.pi/2)",
            Prior::Cosine {
                minimum: -FRAC_PI_2,
                maximum: FRAC_PI_2,
            },
        ),
        (
            "Cosine(name='dec')",
            Prior::Cosine {
                minimum: -FRAC_PI_2,
                maximum: FRAC_PI_2,
            },
        ),
        (
            "Sine(maximum=1.5)",
            Prior::Sine {
                minimum: 0.0,
                maximum: 1.5,
            },
        ),
        (
            "Gaussian(0, 1)",
            Prior::Normal {
                mu: 0.0,
                sigma: 1.0,
            },
        ),
        (
            "bilby.core.prior.Normal(mu=1, sigma=2)",
            Prior::Normal {
                mu: 1.0,
                sigma: 2.0,
            },
        ),
        (
            "TruncatedNormal(0, 1, -1, 2)",
            Prior::TruncatedNormal {
                mu: 0.0,
                sigma: 1.0,
                minimum: -1.0,
                maximum: 2.0,
            },
        ),
        ("DeltaFunction(peak=3)", Prior::Delta { peak: 3.0 }),
        ("100.0", Prior::Delta { peak: 100.0 }),
        ("np.pi", Prior::Delta { peak: PI }),
    ] {
        assert_eq!(read(text).unwrap(), expected, "{text}");
    }
    assert_eq!(
        Prior::from_value("d", &json!(100)).unwrap(),
        Prior::Delta { peak: 100.0 }
    );
}

#[test]
fn refusals_say_what_is_wrong() {
    for (text, part) in [
        (
            "bilby.gw.prior.UniformComovingVolume(minimum=100.0, maximum=1000.0, name='luminosity_distance')",
            "`UniformComovingVolume` is not supported",
        ),
        (
            "SymmetricLogUniform(1, 2)",
            "`SymmetricLogUniform` is not supported",
        ),
        ("os.Uniform(1, 2)", "`os.Uniform` is not a prior of bilby"),
        ("Uniform(minimum=0)", "`maximum` is missing"),
        (
            "Uniform(0, 1, low=2)",
            "unknown argument `low`, expected one of minimum, maximum, name",
        ),
        (
            "Uniform(0, minimum=1, maximum=2)",
            "`minimum` is given twice",
        ),
        (
            "Uniform(minimum=0, 1)",
            "an argument without a name follows",
        ),
        (
            "Uniform(0, 1, 'a', 'b', 'c', 'd', 'e')",
            "more than 6 arguments",
        ),
        ("Uniform(0, 1, name='a', name='b')", "`name` is given twice"),
        ("Uniform(0, 1, name=a)", "expected a text or None"),
        ("Uniform(0, 1, name='a)", "not closed"),
        ("Uniform(0, 1", "expected `)` at the end"),
        ("Uniform(0 1)", "expected `)` before `1)`"),
        ("Uniform(0, 1) + 1", "unexpected text before `+ 1`"),
        (
            "Uniform(1, 0)",
            "minimum must be below maximum, got 1 and 0",
        ),
        (
            "Uniform(0, 1/0)",
            "maximum must be a finite number, got inf",
        ),
        ("Uniform(0/0, 1)", "minimum must be a finite number"),
        ("Normal(0, 0)", "sigma must be positive"),
        ("LogUniform(0, 1)", "minimum must be positive"),
        ("PowerLaw(2, -1, 1)", "minimum must be positive"),
        ("Cosine(0, 3)", "within [-1.57"),
        ("Sine(-1, 1)", "within [0, 3.14"),
        ("TruncatedNormal(0, 1, 100, 101)", "nothing of N(0, 1)"),
        ("wide", "expected a number, or a call"),
        ("", "expected a number, or a call"),
    ] {
        let message = reason(text);
        assert!(message.contains(part), "{text}: {message}");
        assert!(message.starts_with("prior of `x`, `"), "{message}");
    }
    assert!(reason(&"(".repeat(5000)).contains("longer than 4096"));
    for value in [json!(true), json!(null), json!([1]), json!({"a": 1})] {
        assert!(Prior::from_value("x", &value).is_err());
    }
}

fn all() -> Vec<Prior> {
    [
        "Uniform(-1, 3)",
        "Sine()",
        "Sine(0.3, 2)",
        "Cosine()",
        "Cosine(-1, 0.5)",
        "PowerLaw(2, 100, 1000)",
        "PowerLaw(-3, 1, 5)",
        "PowerLaw(0, 0, 5)",
        "LogUniform(2, 50)",
        "Normal(1, 0.5)",
        "TruncatedNormal(0, 1, -1, 2)",
        "TruncatedNormal(0, 1, 4, 6)",
        "TruncatedNormal(0, 1, -6, -4)",
    ]
    .map(|text| read(text).unwrap())
    .to_vec()
}

/// The density is the derivative of the inverse of the quantile function, and integrates to one.
#[test]
fn density_and_quantile_belong_together() {
    for prior in all() {
        for i in 1..200 {
            let (u, step) = (f64::from(i) / 200.0, 1e-6);
            let slope = (prior.quantile(u + step) - prior.quantile(u - step)) / (2.0 * step);
            let density = prior.log_density(prior.quantile(u)).exp();
            assert!((density * slope - 1.0).abs() < 1e-6, "{prior:?} at {u}");
        }
        let (low, high) = prior.bounds();
        if low.is_finite() {
            assert!((prior.quantile(0.0) - low).abs() < 1e-14 * (high - low));
            assert!((prior.quantile(1.0 - 1e-16) - high).abs() < 1e-6 * (high - low));
            assert_eq!(prior.log_density(low - 1e-3), f64::NEG_INFINITY);
            assert_eq!(prior.log_density(high + 1e-3), f64::NEG_INFINITY);
        }
        assert_eq!(prior.log_density(f64::NAN), f64::NEG_INFINITY);
    }
    let delta = Prior::Delta { peak: 2.0 };
    assert_eq!((delta.quantile(0.3), delta.log_density(2.0)), (2.0, 0.0));
    assert_eq!(delta.log_density(2.5), f64::NEG_INFINITY);
}

/// Against midpoint sums over the quantile function.
#[test]
fn moments_are_those_of_the_distribution() {
    for prior in all() {
        let count = 200_000;
        let values: Vec<f64> = (0..count)
            .map(|i| prior.quantile((f64::from(i) + 0.5) / f64::from(count)))
            .collect();
        let (exact, moments) = (Moments::of(&values), prior.moments());
        // Five standard errors of 50,000 draws; the heaviest tail here has kurtosis below 9.
        let error = 5.0 * exact.std / 50_000f64.sqrt();
        assert!((moments.mean - exact.mean).abs() < error, "{prior:?}");
        assert!((moments.std - exact.std).abs() < 1.5 * error, "{prior:?}");
        assert_eq!(moments, prior.moments());
    }
}

/// The values that dingo writes into a checkpoint for these priors.
#[test]
fn closed_forms_have_the_references_digits() {
    for (text, mean, std) in [
        ("Cosine()", 0.0, 0.683667390089903),
        ("Sine()", FRAC_PI_2, 0.683667390089903),
        ("Uniform(0, 2*np.pi)", PI, 1.8137993642342178),
        ("Uniform(-0.1, 0.1)", 0.0, 0.05773502691896258),
        ("Uniform(100, 1000)", 550.0, 259.8076211353316),
        ("Uniform(0, np.pi)", FRAC_PI_2, 0.9068996821171089),
    ] {
        let moments = read(text).unwrap().moments();
        assert_eq!(moments.mean, mean, "{text}");
        // The last digit of a square root of rounded numbers may differ.
        assert!((moments.std / std - 1.0).abs() < 4e-16, "{text}");
    }
    assert_eq!(
        read("5").unwrap().moments(),
        Moments {
            mean: 5.0,
            std: 0.0
        }
    );
}

#[test]
fn every_prior_takes_one_number_of_the_stream() {
    let start = Key::new(3, Purpose::ExtrinsicParameters).stream(9);
    let mut plain = start.clone();
    plain.uniform();
    for prior in all().into_iter().chain([Prior::Delta { peak: 1.0 }]) {
        let mut stream = start.clone();
        let value = prior.sample(&mut stream);
        assert_eq!(value, prior.quantile(start.clone().uniform()));
        assert_eq!(stream.uniform(), plain.clone().uniform());
    }
}

proptest! {
    #[test]
    fn any_text_gives_a_prior_or_an_error(text in "(Uniform|Sine|bilby.core.prior.PowerLaw)?[(),='a-z0-9.*/ -]{0,60}") {
        if let Ok(prior) = Prior::from_value("x", &Value::String(text)) {
            prop_assert!(!prior.quantile(0.5).is_nan());
        }
    }

    #[test]
    fn quantiles_stay_within_bounds(u in 0.0f64..1.0, which in 0usize..13) {
        let prior = all()[which];
        let (low, high) = prior.bounds();
        let value = prior.quantile(u);
        prop_assert!(low <= value && value <= high);
    }
}
