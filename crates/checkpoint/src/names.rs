//! Plain keys: wrappers of other programs are taken off on reading.

use std::collections::HashMap;

use crate::{Error, Named, Result};

/// First segments that wrappers put before every key.
const WRAPPERS: [&str; 2] = ["module.", "_orig_mod."];

/// Prefix of the optimiser's tensors.
pub(crate) const OPTIMIZER: &str = "optim.";

/// Takes wrapper segments off the front of a key until `known` accepts it.
///
/// A key that is known as it is stays: a layer may itself be called `module`. If no form is known, the
/// bare one is returned, so that the message shows what was looked for.
fn unwrap<'a>(key: &'a str, known: &impl Fn(&str) -> bool) -> &'a str {
    let mut bare = key;
    loop {
        if known(bare) {
            return bare;
        }
        match WRAPPERS
            .iter()
            .find_map(|wrapper| bare.strip_prefix(wrapper))
        {
            Some(rest) if !rest.is_empty() => bare = rest,
            _ => return bare,
        }
    }
}

/// The plain key of a tensor of a state dict or of the optimiser.
fn plain(key: &str, known: &impl Fn(&str) -> bool) -> String {
    let of_optimizer = |k: &str| k.starts_with(OPTIMIZER);
    let bare = unwrap(key, &|k| known(k) || of_optimizer(k));
    let Some(rest) = bare.strip_prefix(OPTIMIZER).filter(|_| !known(bare)) else {
        return bare.into();
    };
    let known_moment = |k: &str| {
        k.rsplit_once('.')
            .is_some_and(|(parameter, _)| known(parameter))
    };
    format!("{OPTIMIZER}{}", unwrap(rest, &known_moment))
}

/// Renames every entry to its plain key.
///
/// # Errors
/// [`Error::SameKey`] when two keys of the file are the same plain key.
pub(crate) fn plain_keys<V>(
    entries: impl IntoIterator<Item = (String, V)>,
    known: impl Fn(&str) -> bool,
) -> Result<Named<V>> {
    let mut origins: HashMap<String, String> = HashMap::new();
    let mut renamed = Named::new();
    for (key, value) in entries {
        let name = plain(&key, &known);
        if let Some(first) = origins.insert(name.clone(), key.clone()) {
            return Err(Error::SameKey {
                name,
                first,
                second: key,
            });
        }
        renamed.insert(name, value)?;
    }
    Ok(renamed)
}

/// Takes off the wrappers that every key has, where nobody knows the plain keys.
///
/// # Errors
/// As [`plain_keys`].
pub(crate) fn common_wrappers<V>(
    entries: impl IntoIterator<Item = (String, V)>,
) -> Result<Named<V>> {
    let entries: Vec<_> = entries.into_iter().collect();
    let mut length = 0;
    loop {
        let common = WRAPPERS.iter().find(|wrapper| {
            let wrapped = |(key, _): &(String, V)| key[length..].starts_with(**wrapper);
            !entries.is_empty() && entries.iter().all(wrapped)
        });
        match common {
            Some(wrapper) => length += wrapper.len(),
            None => break,
        }
    }
    let mut renamed = Named::new();
    for (key, value) in entries {
        renamed.insert(&key[length..], value)?;
    }
    Ok(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(keys: &[&str], known: &[&str]) -> Vec<String> {
        let entries = keys.iter().map(|k| (k.to_string(), ()));
        let plain = plain_keys(entries, |k| known.contains(&k)).unwrap();
        plain.into_iter().map(|(k, ())| k).collect()
    }

    #[test]
    fn case_26_wrappers_in_any_nesting_are_taken_off() {
        for key in [
            "x.w",
            "_orig_mod.module.x.w",
            "module._orig_mod.x.w",
            "module.module.x.w",
        ] {
            assert_eq!(renamed(&[key], &["x.w"]), ["x.w"]);
            assert_eq!(renamed(&[key], &[]), ["x.w"]);
        }
        let moments = [
            "optim.module.x.w.exp_avg",
            "module.optim._orig_mod.x.w.step",
        ];
        assert_eq!(
            renamed(&moments, &["x.w"]),
            ["optim.x.w.exp_avg", "optim.x.w.step"]
        );
    }

    #[test]
    fn only_whole_leading_segments_are_wrappers() {
        for key in [
            "flow.module.w",
            "module_list.w",
            "flow._orig_mod.w",
            "modules.x",
            "module",
        ] {
            assert_eq!(renamed(&[key], &[]), [key]);
        }
    }

    #[test]
    fn case_26_a_real_layer_called_module_survives() {
        let known = ["module.w", "module.module.w"];
        assert_eq!(renamed(&["module.w", "module.module.w"], &known), known);
        assert_eq!(renamed(&["_orig_mod.module.w"], &known), ["module.w"]);
        assert_eq!(
            renamed(&["optim.module.w.exp_avg"], &known),
            ["optim.module.w.exp_avg"]
        );
    }

    #[test]
    fn wrappers_that_all_keys_have_are_taken_off() {
        let bare = |keys: [&str; 2]| {
            let named = common_wrappers(keys.map(|k| (k.to_string(), ()))).unwrap();
            named.into_iter().map(|(k, ())| k).collect::<Vec<_>>()
        };
        assert_eq!(
            bare(["_orig_mod.module.a", "_orig_mod.module.b"]),
            ["a", "b"]
        );
        assert_eq!(bare(["module.module.a", "module.b"]), ["module.a", "b"]);
        assert_eq!(bare(["module.a", "b"]), ["module.a", "b"]);
    }

    #[test]
    fn two_keys_for_one_tensor_are_refused() {
        let entries = [("module.x".to_string(), ()), ("x".to_string(), ())];
        let error = plain_keys(entries, |k| k == "x").unwrap_err().to_string();
        assert!(
            error.contains("`module.x`") && error.contains("`x`"),
            "{error}"
        );
    }
}
