//! Comma-separated tables of numbers.
//!
//! The first line is a header if any of its cells is no number. Quotes are taken off header cells;
//! numbers are never quoted. Deliberately not here: other separators, comments, missing cells.

use std::path::Path;

use crate::error::Error;

/// A table of numbers, row by row.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) header: Option<Vec<String>>,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

/// Reads a table; every line has as many cells as the first.
pub(crate) fn read(path: &Path) -> Result<Table, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| Error::malformed(path, format!("not text: {}", error.utf8_error())))?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Table, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.trim()))
        .peekable();
    while lines.next_if(|(_, line)| line.is_empty()).is_some() {}
    let Some(&(_, first)) = lines.peek() else {
        return Err(Error::malformed(path, "no lines"));
    };
    let columns = first.split(',').count();
    let is_header = first
        .split(',')
        .any(|cell| cell.trim().parse::<f64>().is_err());
    let header = is_header.then(|| {
        lines.next();
        first
            .split(',')
            .map(|cell| cell.trim().trim_matches('"').to_owned())
            .collect()
    });
    let mut values = Vec::new();
    for (number, line) in lines {
        if line.is_empty() {
            continue;
        }
        let before = values.len();
        for (column, cell) in line.split(',').enumerate() {
            values.push(cell.trim().parse::<f64>().map_err(|_| {
                Error::malformed(
                    path,
                    format!(
                        "line {number}, column {}: expected a number, got {cell:?}",
                        column + 1
                    ),
                )
            })?);
        }
        let cells = values.len() - before;
        if cells != columns {
            return Err(Error::malformed(
                path,
                format!("line {number}: expected {columns} cells, got {cells}"),
            ));
        }
    }
    Ok(Table {
        header,
        columns,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Table, String> {
        parse(Path::new("t.csv"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn with_and_without_header() {
        let expected = Table {
            header: None,
            columns: 2,
            values: vec![1.0, -2.5, 3e-3, f64::INFINITY],
        };
        assert_eq!(table("1,-2.5\r\n 3e-3 , inf\n\n"), Ok(expected));
        let with = table("\u{feff}\"a\",b\n1,2\n").unwrap();
        assert_eq!(with.header, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(with.values, [1.0, 2.0]);
    }

    #[test]
    fn refusals_name_the_line() {
        assert!(table("").unwrap_err().contains("no lines"));
        assert!(
            table("1,2\n3\n")
                .unwrap_err()
                .contains("line 2: expected 2 cells, got 1")
        );
        assert!(
            table("1,2\n3,x\n")
                .unwrap_err()
                .contains("line 2, column 2")
        );
        assert!(table("a,b\n1,\n").unwrap_err().contains("line 2, column 2"));
    }
}
