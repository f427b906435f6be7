//! Priors as settings spell them: numbers, `default`, and bilby's constructor calls.

use serde_json::Value;

use super::Prior;
use super::expression::{Reader, evaluate};
use crate::{Error, Result};

/// Longest prior string that is read.
const LONGEST: usize = 4096;

/// Arguments that say how a prior is drawn and plotted, not what it is.
const NOTES: [&str; 4] = ["name", "latex_label", "unit", "boundary"];

/// A distribution by its names, with its parameters in the order of bilby's constructor.
struct Form {
    names: &'static [&'static str],
    parameters: &'static [&'static str],
    /// What bilby takes for the last parameters where they are not given.
    defaults: &'static [f64],
    build: fn(&[f64]) -> Prior,
}

const FORMS: [Form; 8] = [
    Form {
        names: &["Uniform"],
        parameters: &["minimum", "maximum"],
        defaults: &[],
        build: |p| Prior::Uniform {
            minimum: p[0],
            maximum: p[1],
        },
    },
    Form {
        names: &["LogUniform"],
        parameters: &["minimum", "maximum"],
        defaults: &[],
        build: |p| Prior::PowerLaw {
            alpha: -1.0,
            minimum: p[0],
            maximum: p[1],
        },
    },
    Form {
        names: &["PowerLaw"],
        parameters: &["alpha", "minimum", "maximum"],
        defaults: &[],
        build: |p| Prior::PowerLaw {
            alpha: p[0],
            minimum: p[1],
            maximum: p[2],
        },
    },
    Form {
        names: &["Sine"],
        parameters: &["minimum", "maximum"],
        defaults: &[0.0, std::f64::consts::PI],
        build: |p| Prior::Sine {
            minimum: p[0],
            maximum: p[1],
        },
    },
    Form {
        names: &["Cosine"],
        parameters: &["minimum", "maximum"],
        defaults: &[-std::f64::consts::FRAC_PI_2, std::f64::consts::FRAC_PI_2],
        build: |p| Prior::Cosine {
            minimum: p[0],
            maximum: p[1],
        },
    },
    Form {
        names: &["Gaussian", "Normal"],
        parameters: &["mu", "sigma"],
        defaults: &[],
        build: |p| Prior::Normal {
            mu: p[0],
            sigma: p[1],
        },
    },
    Form {
        names: &["TruncatedGaussian", "TruncatedNormal"],
        parameters: &["mu", "sigma", "minimum", "maximum"],
        defaults: &[],
        build: |p| Prior::TruncatedNormal {
            mu: p[0],
            sigma: p[1],
            minimum: p[2],
            maximum: p[3],
        },
    },
    Form {
        names: &["DeltaFunction"],
        parameters: &["peak"],
        defaults: &[],
        build: |p| Prior::Delta { peak: p[0] },
    },
];

/// Where bilby keeps its one-dimensional priors.
const MODULES: [&str; 5] = [
    "bilby.core.prior",
    "bilby.core.prior.analytical",
    "bilby.prior",
    "bilby.gw.prior",
    "core.prior",
];

impl Prior {
    /// The prior of a parameter from its value in the settings: a number is a single value, a text is
    /// a constructor call as bilby writes it, such as
    /// `bilby.core.prior.Uniform(minimum=-0.1, maximum=0.1, name='geocent_time')`.
    ///
    /// The module's name may be left out, arguments may stand without their names, and numbers may be
    /// arithmetic with `np.pi`.
    ///
    /// # Errors
    /// [`Error::Prior`].
    pub fn from_value(parameter: &str, value: &Value) -> Result<Self> {
        let refuse = |text: String, reason: String| Error::Prior {
            parameter: parameter.to_owned(),
            text: text.chars().take(200).collect(),
            reason,
        };
        let prior = match value {
            Value::Number(number) => match number.as_f64() {
                Some(peak) => Ok(Self::Delta { peak }),
                None => Err("expected a number".into()),
            },
            Value::String(text) if text.len() > LONGEST => {
                Err(format!("longer than {LONGEST} characters"))
            }
            Value::String(text) => read(text),
            other => {
                return Err(refuse(
                    other.to_string(),
                    "expected a number or a prior string".into(),
                ));
            }
        };
        prior
            .and_then(|prior| prior.check().map(|()| prior))
            .map_err(|reason| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                refuse(text, reason)
            })
    }

    /// [`Prior::from_value`] of a text.
    ///
    /// # Errors
    /// [`Error::Prior`].
    pub fn from_text(parameter: &str, text: &str) -> Result<Self> {
        Self::from_value(parameter, &Value::String(text.to_owned()))
    }
}

fn read(text: &str) -> Result<Prior, String> {
    let mut reader = Reader::new(text);
    let name = reader.try_with(|reader| {
        let name = reader.name();
        (!name.is_empty() && reader.take("(")).then_some(name)
    });
    let Some(name) = name else {
        // A number as text, as YAML writes `1e2`.
        return evaluate(text)
            .map(|peak| Prior::Delta { peak })
            .map_err(|reason| {
                format!(
                    "expected a number, or a call such as Uniform(minimum=0, maximum=1): {reason}"
                )
            });
    };
    let form = form(name)?;
    let prior = arguments(&mut reader, form)?;
    match reader.peek() {
        None => Ok(prior),
        Some(_) => Err(format!("unexpected text {}", reader.here())),
    }
}

fn form(name: &str) -> Result<&'static Form, String> {
    let (module, class) = name.rsplit_once('.').unwrap_or(("", name));
    let known = || {
        let names = FORMS.iter().flat_map(|form| form.names).copied();
        names.collect::<Vec<_>>().join(", ")
    };
    if !(module.is_empty() || MODULES.contains(&module)) {
        return Err(format!(
            "`{name}` is not a prior of bilby; known here are {}",
            known()
        ));
    }
    FORMS
        .iter()
        .find(|form| form.names.contains(&class))
        .ok_or_else(|| format!("`{class}` is not supported; known here are {}", known()))
}

/// The arguments up to the closing parenthesis.
fn arguments(reader: &mut Reader<'_>, form: &Form) -> Result<Prior, String> {
    let count = form.parameters.len();
    let mut values: Vec<Option<f64>> = vec![None; count];
    let mut noted = [false; NOTES.len()];
    let mut position = Some(0);
    while !reader.take(")") {
        let name = reader.try_with(|reader| {
            let name = reader.name();
            (!name.is_empty() && reader.take("=")).then_some(name)
        });
        let index = match (name, position) {
            (Some(name), _) => {
                position = None;
                let all = form.parameters.iter().chain(&NOTES);
                all.clone()
                    .position(|known| *known == name)
                    .ok_or_else(|| {
                        format!(
                            "unknown argument `{name}`, expected one of {}",
                            all.copied().collect::<Vec<_>>().join(", ")
                        )
                    })?
            }
            (None, Some(index)) => {
                position = Some(index + 1);
                index
            }
            (None, None) => {
                return Err(format!(
                    "an argument without a name follows one with a name {}",
                    reader.here()
                ));
            }
        };
        if index < count {
            if values[index].is_some() {
                return Err(format!("`{}` is given twice", form.parameters[index]));
            }
            values[index] = Some(reader.sum()?);
        } else {
            let note = index - count;
            if note >= NOTES.len() {
                return Err(format!("more than {} arguments", count + NOTES.len()));
            }
            if std::mem::replace(&mut noted[note], true) {
                return Err(format!("`{}` is given twice", NOTES[note]));
            }
            if reader.quoted()?.is_none() {
                let here = reader.here();
                if reader.name() != "None" {
                    return Err(format!("`{}`: expected a text or None {here}", NOTES[note]));
                }
            }
        }
        if !reader.take(",") {
            reader.expect(")")?;
            break;
        }
    }
    let first_default = count - form.defaults.len();
    let mut numbers = Vec::with_capacity(count);
    for (i, value) in values.into_iter().enumerate() {
        let default = i.checked_sub(first_default).map(|i| form.defaults[i]);
        numbers.push(
            value
                .or(default)
                .ok_or_else(|| format!("`{}` is missing", form.parameters[i]))?,
        );
    }
    Ok((form.build)(&numbers))
}
