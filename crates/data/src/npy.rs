//! NumPy's `.npy` format, versions 1 to 3: header and body, reading and writing.
//!
//! Numbers and fixed-width text are read; pickled objects, structured and complex types are refused
//! by name. Nothing is allocated from a declared size before that many bytes have been seen.

use std::io::Read;

use crate::array::{Array, Number, Values, elements, from_fortran};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy itself refuses longer headers of files that are not trusted.
const LONGEST_HEADER: usize = 10_000;
const MOST_DIMENSIONS: usize = 32;
const CHUNK: usize = 1 << 16;

/// Why a `.npy` stream was refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Truncated or not a `.npy` stream.
    Malformed(String),
    /// An element type that is not understood.
    ElementType(String),
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) element_type: String,
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<usize>,
    /// Bytes before the body.
    pub(crate) length: usize,
}

impl Header {
    /// Reads magic, version and header.
    pub(crate) fn read(input: &mut impl Read) -> Result<Self, Refusal> {
        let mut start = [0; 8];
        read_all(input, &mut start, "the magic string")?;
        if !start.starts_with(MAGIC) {
            return Err(Refusal::Malformed(
                "not a .npy array (wrong magic string)".into(),
            ));
        }
        let (length, field) = match start[6] {
            1 => {
                let mut bytes = [0; 2];
                read_all(input, &mut bytes, "the header length")?;
                (usize::from(u16::from_le_bytes(bytes)), 2)
            }
            2 | 3 => {
                let mut bytes = [0; 4];
                read_all(input, &mut bytes, "the header length")?;
                (u32::from_le_bytes(bytes) as usize, 4)
            }
            version => {
                return Err(Refusal::Malformed(format!(
                    ".npy version {version}, expected 1, 2 or 3"
                )));
            }
        };
        if length > LONGEST_HEADER {
            return Err(Refusal::Malformed(format!(
                ".npy header of {length} bytes, at most {LONGEST_HEADER} are accepted"
            )));
        }
        let mut text = vec![0; length];
        read_all(input, &mut text, "the header")?;
        let text = std::str::from_utf8(&text)
            .map_err(|_| Refusal::Malformed(".npy header is not text".into()))?;
        let mut header = parse(text)?;
        header.length = start.len() + field + length;
        Ok(header)
    }

    /// The number type and byte order of the elements.
    pub(crate) fn number(&self) -> Result<(Number, bool), Refusal> {
        let refuse = || {
            Err(Refusal::ElementType(match self.element_type.as_str() {
                kind if kind.contains('O') => format!("{kind} (pickled objects)"),
                kind if kind.starts_with('[') => "a structured record".into(),
                kind => kind.into(),
            }))
        };
        let Some(order @ ('<' | '>' | '|' | '=')) = self.element_type.chars().next() else {
            return refuse();
        };
        let number = match &self.element_type[1..] {
            "f4" => Number::F32,
            "f8" => Number::F64,
            "i1" => Number::I8,
            "i2" => Number::I16,
            "i4" => Number::I32,
            "i8" => Number::I64,
            "u1" => Number::U8,
            "u2" => Number::U16,
            "u4" => Number::U32,
            "u8" => Number::U64,
            _ => return refuse(),
        };
        Ok((
            number,
            order == '>' || (order == '=' && cfg!(target_endian = "big")),
        ))
    }

    /// The number of elements.
    pub(crate) fn elements(&self) -> Result<usize, Refusal> {
        elements(&self.shape)
            .ok_or_else(|| Refusal::Malformed(format!("shape {:?} is too large", self.shape)))
    }
}

/// Reads a whole numeric array; bytes beyond it are an error.
pub(crate) fn read(input: &mut impl Read) -> Result<Array, Refusal> {
    let header = Header::read(input)?;
    let (number, big_endian) = header.number()?;
    let mut values = number.empty();
    read_body(input, &header, number.bytes(), |bytes| {
        number.decode(bytes, big_endian, &mut values);
    })?;
    if header.fortran_order && header.shape.len() > 1 {
        values = from_fortran(&header.shape, values);
    }
    Ok(Array {
        shape: header.shape,
        values,
        element_type: header.element_type,
    })
}

/// Reads a vector of fixed-width text (`<U`, `|S`).
pub(crate) fn read_text(input: &mut impl Read) -> Result<Vec<String>, Refusal> {
    let header = Header::read(input)?;
    let refuse = || Refusal::ElementType(header.element_type.clone());
    let kind = header.element_type.as_bytes();
    let width: usize = header
        .element_type
        .get(2..)
        .and_then(|w| w.parse().ok())
        .ok_or_else(refuse)?;
    let (unit, big_endian) = match kind.get(..2) {
        Some(b"<U") => (4, false),
        Some(b">U") => (4, true),
        Some(b"|S") => (1, false),
        _ => return Err(refuse()),
    };
    // A name longer than this is no name.
    if width == 0 || width > 4096 {
        return Err(refuse());
    }
    if header.shape.len() != 1 {
        return Err(Refusal::Malformed(format!(
            "a list is expected, not {:?}",
            header.shape
        )));
    }
    let mut names = Vec::new();
    let mut bad = false;
    read_body(input, &header, unit * width, |bytes| {
        for entry in bytes.chunks_exact(unit * width) {
            let text: Option<String> = entry
                .chunks_exact(unit)
                .map(|unit| match *unit {
                    [a, b, c, d] if big_endian => u32::from_be_bytes([a, b, c, d]),
                    [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
                    _ => unit.first().copied().map_or(0, u32::from),
                })
                .map(char::from_u32)
                .collect();
            match text {
                Some(text) => names.push(text.trim_end_matches('\0').to_owned()),
                None => bad = true,
            }
        }
    })?;
    if bad {
        Err(Refusal::Malformed("text that is not Unicode".into()))
    } else {
        Ok(names)
    }
}

/// Hands the body to `decode` in pieces of whole elements.
fn read_body(
    input: &mut impl Read,
    header: &Header,
    element: usize,
    mut decode: impl FnMut(&[u8]),
) -> Result<(), Refusal> {
    let Some(total) = header.elements()?.checked_mul(element) else {
        return Err(Refusal::Malformed(format!(
            "shape {:?} is too large",
            header.shape
        )));
    };
    let mut buffer = vec![0; (CHUNK / element).max(1) * element];
    let mut left = total;
    while left > 0 {
        let part = buffer.len().min(left);
        let piece = &mut buffer[..part];
        read_all(input, piece, "the elements").map_err(|refusal| match refusal {
            Refusal::Malformed(text) => Refusal::Malformed(format!(
                "{text}: shape {:?} of {} needs {total} bytes",
                header.shape, header.element_type
            )),
            other @ Refusal::ElementType(_) => other,
        })?;
        decode(piece);
        left -= part;
    }
    // Reading to the end also makes the archive compare its checksum.
    match input.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(Refusal::Malformed(format!(
            "bytes beyond the {total} that shape {:?} of {} needs",
            header.shape, header.element_type
        ))),
    }
}

fn read_all(input: &mut impl Read, buffer: &mut [u8], what: &str) -> Result<(), Refusal> {
    input.read_exact(buffer).map_err(|error| {
        Refusal::Malformed(match error.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("truncated in {what}"),
            _ => error.to_string(),
        })
    })
}

/// Parses the header: a Python dictionary with the keys `descr`, `fortran_order` and `shape`.
fn parse(text: &str) -> Result<Header, Refusal> {
    let malformed = || Refusal::Malformed(format!("unreadable .npy header {text:?}"));
    let mut rest = text.trim().strip_prefix('{').ok_or_else(malformed)?;
    let (mut element_type, mut fortran_order, mut shape) = (None, None, None);
    loop {
        rest = rest.trim_start();
        if let Some(end) = rest.strip_prefix('}') {
            if !end.trim().is_empty() {
                return Err(malformed());
            }
            break;
        }
        let (key, after) = quoted(rest).ok_or_else(malformed)?;
        rest = after
            .trim_start()
            .strip_prefix(':')
            .ok_or_else(malformed)?
            .trim_start();
        let repeated = match key {
            "descr" => {
                let (value, after) = match quoted(rest) {
                    Some(value) => value,
                    None => bracketed(rest).ok_or_else(malformed)?,
                };
                rest = after;
                element_type.replace(value.to_owned()).is_some()
            }
            "fortran_order" => {
                let (value, after) = if let Some(after) = rest.strip_prefix("True") {
                    (true, after)
                } else {
                    (false, rest.strip_prefix("False").ok_or_else(malformed)?)
                };
                rest = after;
                fortran_order.replace(value).is_some()
            }
            "shape" => {
                let inner = rest.strip_prefix('(').ok_or_else(malformed)?;
                let (inner, after) = inner.split_once(')').ok_or_else(malformed)?;
                rest = after;
                shape
                    .replace(lengths(inner).ok_or_else(malformed)?)
                    .is_some()
            }
            _ => return Err(malformed()),
        };
        if repeated {
            return Err(malformed());
        }
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err(malformed()),
        }
    }
    match (element_type, fortran_order, shape) {
        (Some(element_type), Some(fortran_order), Some(shape)) => Ok(Header {
            element_type,
            fortran_order,
            shape,
            length: 0,
        }),
        _ => Err(malformed()),
    }
}

/// A quoted string without escapes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (value, rest) = text[1..].split_once(quote)?;
    (!value.contains('\\')).then_some((value, rest))
}

/// A list in square brackets, brackets included, and what follows it.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (position, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => return Some(text.split_at(position + 1)),
            ']' => depth = depth.checked_sub(1)?,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The lengths of a shape: `3, 4`, `3,` or nothing.
fn lengths(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    // Python 2 wrote long integers with an L.
    let length = |part: &str| {
        let part = part.trim();
        part.strip_suffix('L').unwrap_or(part).parse::<usize>().ok()
    };
    let lengths: Option<Vec<usize>> = text.split(',').map(length).collect();
    lengths.filter(|lengths| lengths.len() <= MOST_DIMENSIONS)
}

/// The bytes of a `.npy` file of numbers in C order.
pub(crate) fn write(shape: &[usize], values: &Values) -> Vec<u8> {
    match values {
        Values::F32(values) => {
            let mut bytes = header("<f4", shape);
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            bytes
        }
        Values::F64(values) => {
            let mut bytes = header("<f8", shape);
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            bytes
        }
    }
}

/// The bytes of a `.npy` file with a list of names.
pub(crate) fn write_text(names: &[String]) -> Vec<u8> {
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .max(1);
    let mut bytes = header(&format!("<U{width}"), &[names.len()]);
    for name in names {
        let padded = name
            .chars()
            .map(u32::from)
            .chain(std::iter::repeat(0))
            .take(width);
        bytes.extend(padded.flat_map(u32::to_le_bytes));
    }
    bytes
}

fn header(element_type: &str, shape: &[usize]) -> Vec<u8> {
    let shape: Vec<_> = shape.iter().map(usize::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{element_type}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        shape.join(", ")
    );
    // The body starts at a multiple of 64 bytes; the text ends with a line feed.
    let start = MAGIC.len() + 4;
    let padded = (start + text.len() + 1).next_multiple_of(64);
    text.extend(std::iter::repeat_n(' ', padded - start - text.len() - 1));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Header> {
        parse(text).ok()
    }

    #[test]
    fn headers() {
        let header =
            parsed("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }  \n").unwrap();
        assert_eq!(
            (header.element_type.as_str(), header.fortran_order),
            ("<f4", true)
        );
        assert_eq!(header.shape, [3, 4]);
        let other = "{\"shape\":(5L,),\"descr\":[('a','<f4')],\"fortran_order\":False}";
        let header = parsed(other).unwrap();
        assert_eq!(header.shape, [5]);
        assert!(matches!(header.number(), Err(Refusal::ElementType(kind)) if kind.contains("rec")));
        let scalar = parsed("{'descr':'<f8','fortran_order':False,'shape':()}").unwrap();
        assert!(scalar.shape.is_empty());
        for bad in [
            "",
            "{}",
            "{'descr':'<f8','fortran_order':False,'shape':(-1,)}",
            "{'descr':'<f8','fortran_order':False,'shape':(1,,2)}",
            "{'descr':'<f8','fortran_order':False,'shape':(99999999999999999999999,)}",
            "{'descr':'<f8','fortran_order':Maybe,'shape':(1,)}",
            "{'descr':'<f8','descr':'<f8','fortran_order':False,'shape':(1,)}",
            "{'descr':'<f8','fortran_order':False,'shape':(1,)} extra",
            "{'descr':'<f8','fortran_order':False,'shape':(1,),'more':1}",
            "{'descr':[['<f8','fortran_order':False,'shape':(1,)}",
        ] {
            assert!(parsed(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn element_types() {
        for (kind, number, big) in [
            ("<f4", Number::F32, false),
            (">f8", Number::F64, true),
            ("|i1", Number::I8, false),
            ("<u8", Number::U64, false),
        ] {
            let header = Header {
                element_type: kind.into(),
                fortran_order: false,
                shape: vec![1],
                length: 0,
            };
            assert_eq!(header.number().unwrap(), (number, big));
        }
        for kind in ["|O", "<c8", "<f2", "|b1", "<U3", "<M8[ns]", "", "é", "f4"] {
            let header = Header {
                element_type: kind.into(),
                fortran_order: false,
                shape: vec![1],
                length: 0,
            };
            let Err(Refusal::ElementType(text)) = header.number() else {
                panic!("{kind}")
            };
            assert!(text.starts_with(kind));
            assert_eq!(kind == "|O", text.contains("pickled"));
        }
    }

    #[test]
    fn a_written_array_starts_where_numpy_starts_it() {
        let bytes = write(&[2], &Values::F64(vec![1.5, -2.0]));
        let text =
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
        assert!(bytes.starts_with(text));
        assert_eq!(bytes.len(), 128 + 16);
        assert_eq!(bytes[127], b'\n');
    }

    #[test]
    fn names_round_trip() {
        let names = vec!["theta_0".to_owned(), "µ".into(), String::new()];
        assert_eq!(
            read_text(&mut write_text(&names).as_slice()).unwrap(),
            names
        );
        assert!(read_text(&mut write(&[1], &Values::F64(vec![1.0])).as_slice()).is_err());
    }

    #[test]
    fn trailing_bytes_and_truncation() {
        let mut bytes = write(&[2, 2], &Values::F32(vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!(read(&mut bytes.as_slice()).unwrap().shape, [2, 2]);
        for length in 0..bytes.len() {
            assert!(read(&mut &bytes[..length]).is_err(), "{length}");
        }
        bytes.push(0);
        assert!(
            matches!(read(&mut bytes.as_slice()), Err(Refusal::Malformed(t)) if t.contains("beyond"))
        );
    }

    #[test]
    fn a_huge_declared_shape_costs_nothing() {
        for shape in [
            &[1 << 60][..],
            &[1 << 40, 1 << 40],
            &[usize::MAX, 1],
            &[1 << 61],
        ] {
            let bytes = header("<f8", shape);
            assert!(matches!(
                read(&mut bytes.as_slice()),
                Err(Refusal::Malformed(_))
            ));
        }
    }
}
