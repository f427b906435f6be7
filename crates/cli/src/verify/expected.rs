//! What a case's values are compared with, and one check for each.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::bounds::{
    Cancelled, REFERENCE_ERRORS, against_exact, by_quantiles, farthest, last_quantile, rule,
    sorted_relative,
};
use super::case::{Case, Kind, Precision};
use super::check::{Check, GROUPS, Rule, group};
use super::compare::Comparison;
use super::golden::Values;
use super::paths::{Computed, Path};
use super::report::Verdict;
use super::{Error, Result};

/// Results of a case and of more precise arithmetic, to compare with.
struct Expected<'a> {
    case: &'a Case,
    cancelled: Cancelled,
    /// The path's own results in float64 on the same float32 inputs, for float32 cases.
    wide: Option<Computed>,
    /// Results of [`Expected::group_error`], by group.
    errors: RefCell<BTreeMap<String, f64>>,
}

/// One tensor of a group: the file's values, and those of float64 arithmetic.
struct Member<'a> {
    key: &'a str,
    reference: &'a [f64],
    exact: &'a [f64],
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
    fn members(&self, name: &str) -> Result<Vec<Member<'_>>> {
        let mut members = Vec::new();
        for key in self.case.results().filter(|key| group(key) == name) {
            if rule(self.case, &self.cancelled, key, true)? != Rule::TwiceGroup {
                continue;
            }
            if let (Ok(reference), Some(exact)) = (self.case.golden.reals(key), self.exact(key))
                && reference.len() == exact.len()
            {
                members.push(Member {
                    key,
                    reference,
                    exact,
                });
            }
        }
        Ok(members)
    }

    /// The largest relative error the reference makes in any tensor of a group.
    fn group_error(&self, name: &str) -> Result<f64> {
        let members = self.members(name)?;
        Ok(members.iter().fold(0.0, |largest: f64, member| {
            let own = sorted_relative(member.reference, member.exact);
            largest.max(own.last().copied().unwrap_or(0.0))
        }))
    }

    /// The errors of all tensors of a group together.
    fn pooled(&self, name: &str, computed: &Computed) -> Result<Option<Check>> {
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for member in self.members(name)? {
            let Member {
                key,
                reference,
                exact,
            } = member;
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
                return self.judged(key, rule, (difference, bound), c);
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
                let difference = last_quantile(computed, exact);
                return self.judged(key, rule, (difference, bound), own);
            }
        };
        Ok(Check::judged(key, rule, c.difference, bound, c))
    }

    /// A check by quantiles, which no single element may escape.
    fn judged(
        &self,
        key: &str,
        rule: Rule,
        (difference, bound): (f64, f64),
        c: Comparison,
    ) -> Result<Check> {
        let farthest = farthest(self.case, key)?;
        let (difference, bound) = if c.difference > farthest {
            (c.difference, farthest)
        } else {
            (difference, bound)
        };
        Ok(Check::judged(key, rule, difference, bound, c))
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::verify::{Manifest, all_paths};

    /// A path that changes one element of what another one computes in float32.
    struct Changed {
        path: Box<dyn Path>,
        key: String,
        index: usize,
        change: fn(f64) -> f64,
    }

    impl Path for Changed {
        fn name(&self) -> &'static str {
            "changed"
        }

        fn available(&self) -> std::result::Result<(), String> {
            Ok(())
        }

        fn takes(&self, _: &Case) -> bool {
            true
        }

        fn covers(&self, case: &Case, key: &str) -> bool {
            self.path.covers(case, key)
        }

        fn compute(&self, case: &Case, precision: Precision) -> Result<Computed> {
            let mut computed = self.path.compute(case, precision)?;
            if precision == Precision::Single
                && let Some(Values::Reals(values)) = computed.get(&self.key)
            {
                let mut values = values.clone();
                values[self.index] = (self.change)(values[self.index]);
                computed.insert(self.key.clone(), Values::Reals(values));
            }
            Ok(computed)
        }
    }

    /// Quantiles do not see the last element of a large tensor; the check does.
    #[test]
    fn one_element_of_a_large_tensor_cannot_hide_behind_quantiles() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden");
        let manifest = Manifest::read(&folder).unwrap();
        let case = manifest
            .entries()
            .iter()
            .map(|entry| Case::read(&folder, entry).unwrap())
            .find(|case| case.name() == "posterior_rb_f32")
            .unwrap();
        let weights = "embedding_net.0.layers_rb.0.weight";
        let (free, last) = (
            format!("all_trainable.grad.{weights}"),
            format!("trajectory.final.{weights}"),
        );
        // The weight that is farthest off anyway, see `bounds`: moving it changes no quantile.
        let farthest = 1060;
        let identity: fn(f64) -> f64 = |x| x;
        for (key, index, change, good) in [
            (&free, 7, identity, true),
            (&free, 7, |_| f64::NAN, false),
            (&last, farthest, |x| x + 1e-3, true),
            (&last, farthest, |x| x + 1e-2, false),
        ] {
            let mut paths = all_paths();
            let at = paths.iter().position(|path| path.name() == "plan").unwrap();
            let changed = Changed {
                path: paths.swap_remove(at),
                key: key.into(),
                index,
                change,
            };
            let verdict = checks(&case, &changed).unwrap();
            let failed: Vec<_> = verdict.checks.iter().filter(|c| !c.passed).collect();
            assert_eq!(failed.is_empty(), good, "{key}: {failed:?}");
            assert!(failed.iter().all(|c| c.quantity == *key), "{failed:?}");
        }
    }
}
