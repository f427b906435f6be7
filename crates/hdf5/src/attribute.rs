//! Attributes: short values beside a group or a dataset.

use std::collections::{BTreeMap, HashMap};

use hdf5_pure::{AttrValue, Datatype};

use crate::element::ElementType;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// An integer; a truth value is 0 or 1.
    Integer(i64),
    /// Several integers.
    Integers(Vec<i64>),
    /// A floating-point number.
    Float(f64),
    /// Several floating-point numbers.
    Floats(Vec<f64>),
    /// A value that is not read here, in words.
    Other(String),
}

impl Attribute {
    /// The kind of the value, in words.
    pub fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Texts(_) => "several texts",
            Self::Integer(_) => "an integer",
            Self::Integers(_) => "several integers",
            Self::Float(_) => "a floating-point number",
            Self::Floats(_) => "several floating-point numbers",
            Self::Other(what) => what,
        }
    }

    fn of(value: &AttrValue) -> Option<Self> {
        // A character that is no UTF-8 was replaced by the library: that text is not what the file holds.
        let whole = |text: &str| !text.contains('\u{fffd}');
        if let Some(text) = value.as_str() {
            return whole(text).then(|| Self::Text(text.to_owned()));
        }
        if let Some(texts) = value.as_strings() {
            let whole = texts.iter().all(|text| whole(text));
            return whole.then(|| Self::Texts(texts.to_vec()));
        }
        if let Some(integer) = value.as_i64() {
            return Some(Self::Integer(integer));
        }
        if let Some(integers) = value.to_i64s() {
            return Some(Self::Integers(integers));
        }
        if let Some(float) = value.as_f64() {
            return Some(Self::Float(float));
        }
        value.to_f64s().map(Self::Floats)
    }
}

/// The attributes of one object; those that the library leaves out appear as [`Attribute::Other`].
pub(crate) fn collect(
    values: HashMap<String, AttrValue>,
    types: HashMap<String, Datatype>,
) -> Result<BTreeMap<String, Attribute>, hdf5_pure::Error> {
    let mut attributes = BTreeMap::new();
    for (name, datatype) in types {
        let value = values.get(&name).and_then(Attribute::of);
        let value = value.unwrap_or_else(|| {
            let element = ElementType::of(&datatype);
            Attribute::Other(format!("{element} that cannot be read"))
        });
        attributes.insert(name, value);
    }
    Ok(attributes)
}
