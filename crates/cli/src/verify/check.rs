//! One tensor of one case through one path: compared, bounded, judged.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::bounds::{
    Cancelled, REFERENCE_ERRORS, against_exact, by_quantiles, rule, sorted_relative,
};
use super::case::{Case, Kind, Precision};
use super::compare::Comparison;
use super::golden::Values;
use super::paths::{Computed, Path};
use super::report::Verdict;
use super::{Error, Result};

/// How a tensor is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Every element equals the expected one.
    Equal,
    /// The largest difference is at most this times the largest magnitude of the tensor.
    Relative(f64),
    /// The largest difference is at most this.
    Absolute(f64),
    /// The tensor is zero but for rounding: the largest difference is at most this times the largest
    /// magnitude among all tensors of its group.
    Noise(f64),
    /// float32: errors against the float64 value at most twice the reference's own, at the
    /// quantiles 50, 99 and 99.9 per cent of the tensor's elements.
    TwiceReference,
    /// float32, one of many tensors (gradients, final weights): the largest error against the
    /// float64 value, relative to the tensor's largest magnitude, is at most twice the largest such
    /// error the reference makes in any tensor of the group. In a tensor of five elements the
    /// reference's own error is a matter of luck; among all tensors it is not.
    TwiceGroup,
    /// float32, all tensors of a group together: their elements' relative errors at most twice the
    /// reference's, at the quantiles 50, 99 and 99.9 per cent.
    TwicePooled,
}

impl Rule {
    fn name(self) -> String {
        match self {
            Self::Equal => "equal".into(),
            Self::Relative(bound) => format!("{bound:e} of the tensor's largest magnitude"),
            Self::Absolute(bound) => format!("{bound:e}"),
            Self::Noise(bound) => format!("{bound:e} of the group's largest magnitude"),
            Self::TwiceReference => "twice the reference's own error, by quantiles".into(),
            Self::TwiceGroup => "twice the reference's largest relative error in the group".into(),
            Self::TwicePooled => {
                "twice the reference's relative errors of the whole group, by quantiles".into()
            }
        }
    }
}

/// One tensor's verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Key of the tensor in the golden file.
    pub quantity: String,
    /// How it was judged.
    pub rule: Rule,
    /// The difference that was judged.
    pub difference: f64,
    /// The bound.
    pub bound: f64,
    /// Whether the difference is within the bound.
    pub passed: bool,
    /// Where the computed value is farthest from the file's.
    pub comparison: Option<Comparison>,
    /// Why nothing could be compared.
    pub remark: Option<String>,
}

/// Prefixes of tensors that belong together.
const GROUPS: [&str; 6] = [
    "grad.",
    "train.after.",
    "frozen_rb.grad.",
    "all_trainable.grad.",
    "trajectory.final.",
    "init.state.",
];

/// The group a key is in: its prefix and `*`, or the key itself.
pub(super) fn group(key: &str) -> String {
    GROUPS
        .iter()
        .find(|prefix| key.starts_with(**prefix))
        .map_or_else(|| key.to_owned(), |prefix| format!("{prefix}*"))
}

/// A number JSON has, or its name.
fn number(value: f64) -> Value {
    if value.is_finite() {
        json!(value)
    } else {
        json!(value.to_string())
    }
}

impl Check {
    /// What it belongs to: its own key, or the group of all gradients, final weights and so on.
    pub fn group(&self) -> String {
        group(&self.quantity)
    }

    /// Difference over bound; infinite for a failed check without bound.
    pub fn share(&self) -> f64 {
        if !self.passed {
            // A failed check stands before every passed one, whatever their bounds.
            return f64::MAX.min(1.0 + self.difference / self.bound.max(f64::MIN_POSITIVE));
        }
        if self.difference == 0.0 {
            0.0
        } else {
            self.difference / self.bound
        }
    }

    fn judged(quantity: &str, rule: Rule, difference: f64, bound: f64, c: Comparison) -> Self {
        Self {
            quantity: quantity.into(),
            rule,
            difference,
            bound,
            passed: difference <= bound,
            comparison: Some(c),
            remark: None,
        }
    }

    fn impossible(quantity: &str, rule: Rule, remark: String) -> Self {
        Self {
            quantity: quantity.into(),
            rule,
            difference: f64::INFINITY,
            bound: 0.0,
            passed: false,
            comparison: None,
            remark: Some(remark),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({
            "quantity": self.quantity,
            "rule": self.rule.name(),
            "difference": number(self.difference),
            "bound": number(self.bound),
            "passed": self.passed,
        });
        if let Some(c) = &self.comparison {
            value["count"] = json!(c.count);
            value["worst_index"] = json!(c.worst);
            value["computed"] = number(c.computed);
            value["expected"] = number(c.expected);
        }
        if let Some(remark) = &self.remark {
            value["remark"] = json!(remark);
        }
        value
    }
}

/// Results of a case and of more precise arithmetic, to compare with.
struct Expected<'a> {
    case: &'a Case,
    cancelled: Cancelled,
    /// The path's own results in float64 on the same float32 inputs, for float32 cases.
    wide: Option<Computed>,
    /// Results of [`Expected::group_error`], by group.
    errors: RefCell<BTreeMap<String, f64>>,
}

impl Expected<'_> {
    /// Largest magnitude among all tensors of the group that `key` is in.
    fn group_magnitude(&self, key: &str) -> f64 {
        let name = group(key);
        let members = self.case.results().filter(|member| group(member) == name);
        members
            .filter_map(|member| self.case.golden.reals(member).ok())
            .flatten()
            .fold(0.0, |largest: f64, x| largest.max(x.abs()))
    }

    /// Values of the float64 function on the file's float32 inputs.
    fn exact(&self, key: &str) -> Option<&[f64]> {
        let stored = format!("exact.{key}");
        if let Ok(values) = self.case.golden.reals(&stored) {
            return Some(values);
        }
        match self.wide.as_ref()?.get(key)? {
            Values::Reals(values) => Some(values),
            Values::Integers(_) => None,
        }
    }

    /// Members of a group that are judged by the reference's errors: file's and float64 values.
    fn members(&self, name: &str) -> Result<Vec<(&str, &[f64], &[f64])>> {
        let mut members = Vec::new();
        for key in self.case.results().filter(|key| group(key) == name) {
            if rule(self.case, &self.cancelled, key, true)? != Rule::TwiceGroup {
                continue;
            }
            if let (Ok(reference), Some(exact)) = (self.case.golden.reals(key), self.exact(key))
                && reference.len() == exact.len()
            {
                members.push((key, reference, exact));
            }
        }
        Ok(members)
    }

    /// The largest relative error the reference makes in any tensor of a group.
    fn group_error(&self, name: &str) -> Result<f64> {
        let members = self.members(name)?;
        Ok(members
            .iter()
            .fold(0.0, |largest: f64, (_, reference, exact)| {
                let own = sorted_relative(reference, exact);
                largest.max(own.last().copied().unwrap_or(0.0))
            }))
    }

    /// The errors of all tensors of a group together.
    fn pooled(&self, name: &str, computed: &Computed) -> Result<Option<Check>> {
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for (key, reference, exact) in self.members(name)? {
            if let Some(Values::Reals(values)) = computed.get(key)
                && values.len() == exact.len()
            {
                own.extend(sorted_relative(values, exact));
                theirs.extend(sorted_relative(reference, exact));
            }
        }
        if own.is_empty() {
            return Ok(None);
        }
        own.sort_by(f64::total_cmp);
        theirs.sort_by(f64::total_cmp);
        let (difference, bound) = by_quantiles(&own, &theirs, 0.0);
        Ok(Some(Check {
            quantity: format!("{name} together"),
            rule: Rule::TwicePooled,
            difference,
            bound,
            passed: difference <= bound,
            comparison: None,
            remark: None,
        }))
    }

    fn check(&self, key: &str, computed: Option<&Values>) -> Result<Check> {
        let single = self.case.precision == Precision::Single;
        let rule = rule(self.case, &self.cancelled, key, single)?;
        let Some(computed) = computed else {
            return Ok(Check::impossible(
                key,
                rule,
                "the path does not give it".into(),
            ));
        };
        let Some(golden) = self.case.golden.find(key) else {
            return Ok(Check::impossible(
                key,
                rule,
                "the golden file has no such value".into(),
            ));
        };
        let (computed, expected) = match (computed, &golden.values) {
            (Values::Reals(computed), Values::Reals(expected)) => (computed, expected),
            (Values::Integers(computed), Values::Integers(expected)) => {
                let wide = |v: &[i64]| v.iter().map(|&x| x as f64).collect::<Vec<_>>();
                return Ok(match Comparison::new(&wide(computed), &wide(expected)) {
                    Some(c) => Check::judged(key, Rule::Equal, c.difference, 0.0, c),
                    None => self.lengths(key, rule, computed.len(), expected.len()),
                });
            }
            _ => {
                return Ok(Check::impossible(
                    key,
                    rule,
                    "integers against reals".into(),
                ));
            }
        };
        let Some(c) = Comparison::new(computed, expected) else {
            return Ok(self.lengths(key, rule, computed.len(), expected.len()));
        };
        let bound = match rule {
            Rule::Equal => 0.0,
            Rule::Relative(factor) => factor * c.magnitude,
            Rule::Absolute(bound) => bound,
            Rule::Noise(factor) => factor * self.group_magnitude(key),
            Rule::TwiceReference => {
                let Some(exact) = self.exact(key).filter(|e| e.len() == computed.len()) else {
                    let remark = "there is no float64 value to compare with".to_owned();
                    return Ok(Check::impossible(key, rule, remark));
                };
                let (difference, bound) = against_exact(computed, expected, exact);
                return Ok(Check::judged(key, rule, difference, bound, c));
            }
            Rule::TwiceGroup | Rule::TwicePooled => {
                let Some(exact) = self.exact(key).filter(|e| e.len() == computed.len()) else {
                    let remark = "there is no float64 value to compare with".to_owned();
                    return Ok(Check::impossible(key, rule, remark));
                };
                let Some(own) = Comparison::new(computed, exact) else {
                    return Ok(self.lengths(key, rule, computed.len(), exact.len()));
                };
                let name = group(key);
                let known = self.errors.borrow().get(&name).copied();
                let error = match known {
                    Some(error) => error,
                    None => self.group_error(&name)?,
                };
                self.errors.borrow_mut().insert(name, error);
                let bound = REFERENCE_ERRORS * error * own.magnitude;
                return Ok(Check::judged(key, rule, own.difference, bound, own));
            }
        };
        Ok(Check::judged(key, rule, c.difference, bound, c))
    }

    fn lengths(&self, key: &str, rule: Rule, computed: usize, expected: usize) -> Check {
        let remark = format!("expected {expected} values, got {computed}");
        Check::impossible(key, rule, remark)
    }
}

/// Runs one case through one path.
pub(super) fn checks(case: &Case, path: &dyn Path) -> Result<Verdict> {
    let compute = |precision| {
        path.compute(case, precision).map_err(|error| match error {
            Error::Path { reason, .. } => Error::Path {
                file: case.golden.file().into(),
                path: path.name().into(),
                reason,
            },
            other => other,
        })
    };
    let computed = compute(case.precision)?;
    // The spline's files hold every float64 value; the networks' do not.
    let wide = match (case.precision, case.kind) {
        (Precision::Single, Kind::Flow | Kind::Posterior | Kind::Training) => {
            Some(compute(Precision::Double)?)
        }
        _ => None,
    };
    let expected = Expected {
        case,
        cancelled: case.network().map_or_else(
            |_| Cancelled::default(),
            |(_, layout)| Cancelled::of(layout),
        ),
        wide,
        errors: RefCell::default(),
    };
    let mut checks = Vec::new();
    for key in case.results().filter(|key| path.covers(case, key)) {
        checks.push(expected.check(key, computed.get(key))?);
    }
    if case.precision == Precision::Single {
        for prefix in GROUPS {
            checks.extend(expected.pooled(&format!("{prefix}*"), &computed)?);
        }
    }
    for (key, values) in computed.iter() {
        if case.golden.find(key).is_none() {
            checks.push(expected.check(key, Some(values))?);
        }
    }
    Ok(Verdict {
        case: case.name().into(),
        path: path.name().into(),
        checks,
    })
}
