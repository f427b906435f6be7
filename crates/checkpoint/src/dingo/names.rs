//! Parameter names and standardisation, as dingo's `data` settings say them.

use serde_json::{Map, Value};

use super::entry;
use crate::{ParameterMetadata, Result, Scale, Standardization};

/// What a network's columns are called, and how they were standardised.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) parameters: Vec<ParameterMetadata>,
    pub(super) context_parameters: Vec<String>,
    pub(super) standardization: Option<Standardization>,
}

/// Reads `data.inference_parameters`, `data.context_parameters` and `data.standardization`.
///
/// Where the parameters are "default" or not listed, the standardisation's keys are their names: the
/// first D are the parameters, the others the context parameters.
pub(super) fn read(train_settings: &Map<String, Value>, d: usize) -> Result<Names> {
    let Some(data) = train_settings.get("data") else {
        return Ok(Names::default());
    };
    let standardization = data.get("standardization").filter(|v| !v.is_null());
    let columns: Vec<String> = match standardization.map(|s| &s["mean"]) {
        None => Vec::new(),
        Some(Value::Object(means)) => means.keys().cloned().collect(),
        other => return Err(entry("data.standardization.mean", "a dict", other)),
    };
    let listed = match list(data, "inference_parameters")? {
        Some(names) => Some(names),
        None => list(data, "parameters")?,
    };
    let context = list(data, "context_parameters")?;
    let parameters = listed.unwrap_or_else(|| columns.iter().take(d).cloned().collect::<Vec<_>>());
    let context = context.unwrap_or_else(|| {
        let rest = columns.iter().filter(|name| !parameters.contains(name));
        rest.cloned().collect()
    });
    let standardization = standardization
        .map(|given| -> Result<_> {
            Ok(Standardization {
                theta: scale(given, &parameters)?,
                observation: None,
                context_parameters: (!context.is_empty())
                    .then(|| scale(given, &context))
                    .transpose()?,
            })
        })
        .transpose()?;
    let named = |name: String| ParameterMetadata {
        name,
        lower: None,
        upper: None,
    };
    Ok(Names {
        parameters: parameters.into_iter().map(named).collect(),
        context_parameters: context,
        standardization,
    })
}

/// A list of names; `None` where there is none or where it is "default".
fn list(data: &Value, key: &str) -> Result<Option<Vec<String>>> {
    let refuse = |value| {
        Err(entry(
            &format!("data.{key}"),
            "a list of names",
            Some(value),
        ))
    };
    match data.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text == "default" => Ok(None),
        Some(value @ Value::Array(values)) => {
            let texts: Option<Vec<_>> = values.iter().map(|v| v.as_str().map(Into::into)).collect();
            match texts {
                Some(texts) => Ok(Some(texts)),
                None => refuse(value),
            }
        }
        Some(value) => refuse(value),
    }
}

fn scale(given: &Value, names: &[String]) -> Result<Scale> {
    let column = |what: &str| -> Result<Vec<f64>> {
        let number = |name: &String| {
            let value = given[what].get(name);
            let path = format!("data.standardization.{what}.{name}");
            value
                .and_then(Value::as_f64)
                .ok_or_else(|| entry(&path, "a number", value))
        };
        names.iter().map(number).collect()
    };
    Ok(Scale {
        mean: column("mean")?,
        std: column("std")?,
    })
}
