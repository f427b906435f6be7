//! One tensor of one case through one path: compared, bounded, judged.

use serde_json::{Value, json};

use super::compare::Comparison;

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
    /// float32, one of many tensors (gradients, final weights): the error against the float64 value
    /// at the quantile 99.9 per cent (the largest in a tensor of fewer than 500 elements), relative
    /// to the tensor's largest magnitude, is at most twice the largest such error the reference
    /// makes in any tensor of the group. In a tensor of five elements the
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
pub(super) const GROUPS: [&str; 6] = [
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

    pub(super) fn judged(
        quantity: &str,
        rule: Rule,
        difference: f64,
        bound: f64,
        c: Comparison,
    ) -> Self {
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

    pub(super) fn impossible(quantity: &str, rule: Rule, remark: String) -> Self {
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
