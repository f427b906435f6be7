//! What can be wrong with a checkpoint, each kind of damage with its own variant.

use std::path::PathBuf;

use crate::DType;

/// Names listed in messages about key sets.
const LISTED: usize = 5;

/// An error of this crate; every variant names the thing, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read as a checkpoint.
    #[error("{path}: {fault}{hint}", path = path.display(), hint = previous_hint(previous.as_deref()))]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        fault: Box<Error>,
        /// The save before this one, where it was kept and can be read.
        previous: Option<PathBuf>,
    },
    /// The operating system refused to read.
    #[error("cannot read: {0}")]
    Io(#[from] std::io::Error),
    /// The file could not be written; what stood there before is untouched.
    #[error(transparent)]
    Write(#[from] dunnart_files::Error),
    /// The path is a folder, a device or a pipe.
    #[error("is not a regular file")]
    NotAFile,
    /// The file is of another format.
    #[error("is {found}, expected a checkpoint (.safetensors, .pt, .hdf5)")]
    OtherFormat {
        /// What it is.
        found: &'static str,
    },
    /// The file ends early.
    #[error("is truncated: {what} needs {expected} bytes, the file has {found}")]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Bytes the file should have at least.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// The file goes on after its last tensor.
    #[error("has {extra} bytes after its last tensor")]
    TrailingBytes {
        /// Bytes too many.
        extra: u64,
    },
    /// The header claims a size that no checkpoint has.
    #[error("header of {found} bytes, at most {limit} are accepted")]
    HeaderTooLarge {
        /// Largest accepted size.
        limit: u64,
        /// Claimed size.
        found: u64,
    },
    /// The header is no JSON object of tensors.
    #[error("header: {0}")]
    Header(String),
    /// A key occurs twice.
    #[error("key `{name}` occurs twice")]
    DuplicateKey {
        /// The key.
        name: String,
    },
    /// Two keys of a file name one tensor after wrapper prefixes are taken off.
    #[error("keys `{first}` and `{second}` are both `{name}` without their wrapper prefixes")]
    SameKey {
        /// The plain key.
        name: String,
        /// One key of the file.
        first: String,
        /// The other.
        second: String,
    },
    /// A tensor's elements lie outside the file.
    #[error("tensor `{name}`: bytes {begin} to {end} are outside the data of {size} bytes")]
    OutOfRange {
        /// The tensor.
        name: String,
        /// Its first byte.
        begin: u64,
        /// The byte after its last.
        end: u64,
        /// Bytes of all data.
        size: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors `{first}` and `{second}` overlap")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The other.
        second: String,
    },
    /// Bytes belong to no tensor.
    #[error("tensor `{name}`: {bytes} bytes before it belong to no tensor")]
    Gap {
        /// The tensor after the gap.
        name: String,
        /// Size of the gap.
        bytes: u64,
    },
    /// Shape and element type do not fill the tensor's bytes.
    #[error("tensor `{name}`: shape {shape:?} of {dtype} does not fit in {bytes} bytes")]
    Bytes {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Vec<u64>,
        /// Its element type.
        dtype: String,
        /// Bytes it has.
        bytes: u64,
    },
    /// A tensor's elements are of a type that is not understood or not allowed here.
    #[error("tensor `{name}`: expected element type {expected}, got {found}")]
    ElementType {
        /// The tensor.
        name: String,
        /// What is accepted.
        expected: String,
        /// Its element type.
        found: String,
    },
    /// Reading would round the weights, and nobody asked for it.
    #[error(
        "weights are {found}, the network is wanted in {wanted}: that would round them, \
         which has to be asked for"
    )]
    Precision {
        /// Precision asked for.
        wanted: DType,
        /// Precision of the weights.
        found: DType,
    },
    /// A tensor has another number of elements than its shape says.
    #[error("tensor `{name}`: shape {shape:?} does not hold {found} elements")]
    Elements {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Elements given.
        found: usize,
    },
    /// A tensor has another shape than the network needs.
    #[error("tensor `{name}`: expected shape {expected:?}, got {found:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Shape needed.
        expected: Vec<usize>,
        /// Shape found.
        found: Vec<usize>,
    },
    /// The keys are not exactly those of the network.
    #[error("{0}")]
    KeySet(Box<KeySetMismatch>),
    /// The settings describe a network that cannot be the one in the file.
    #[error(
        "the architecture needs at least {needed} {what}, the file has {found}: \
         they do not belong together"
    )]
    Implausible {
        /// Tensors or bytes.
        what: &'static str,
        /// How many the architecture needs.
        needed: u128,
        /// How many there are.
        found: u128,
    },
    /// A value is NaN or infinite.
    #[error("tensor `{name}`: element {index} is {value}, expected a finite number")]
    NonFinite {
        /// The tensor.
        name: String,
        /// Index of the element, row-major.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// A running variance is negative.
    #[error("tensor `{name}`: element {index} is {value}, a variance cannot be negative")]
    NegativeVariance {
        /// The tensor.
        name: String,
        /// Index of the element.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// A tensor of the optimiser belongs to no parameter of the network.
    #[error("optimiser tensor `{name}`: {reason}")]
    Optimizer {
        /// Key of the tensor.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A safetensors file without our metadata.
    #[error("is a safetensors file without checkpoint metadata (no entry `{key}`)")]
    NotACheckpoint {
        /// Key of the metadata entry.
        key: &'static str,
    },
    /// The metadata cannot be understood.
    #[error("metadata: {0}")]
    Metadata(String),
    /// The file was written by a newer program.
    #[error(
        "was written in format version {found} by dunnart {writer}, this program reads up to \
         {supported}: use dunnart {writer} or newer"
    )]
    Newer {
        /// Its format version.
        found: u64,
        /// The newest version understood here.
        supported: u32,
        /// Version of the program that wrote it.
        writer: String,
    },
    /// Content and checksum disagree: the file is damaged.
    #[error("is damaged: its checksum is {expected}, its content gives {found}")]
    Checksum {
        /// Checksum in the file.
        expected: String,
        /// Checksum of what was read.
        found: String,
    },
    /// The ending of a path to be written is not known.
    #[error("has no ending that is written: expected .safetensors, .pt or .hdf5")]
    Ending,
    /// The zip archive is damaged.
    #[error("archive: {0}")]
    Archive(String),
    /// A member of the archive is damaged, missing or of another size.
    #[error("archive member `{name}` {reason}")]
    Member {
        /// The member, without the folder around it.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The file was written on a big-endian machine.
    #[error(
        "byteorder is `{found}`, only `little` is read; save it again on a little-endian machine"
    )]
    ByteOrder {
        /// What the file says.
        found: String,
    },
    /// A `.pt` file as torch wrote it before 1.6.
    #[error(
        "is a .pt file of the old kind, without an archive\n  hint: open and save it once with torch \
         1.6 or newer: torch.save(torch.load(\"old.pt\"), \"new.pt\")"
    )]
    OldTorch,
    /// The pickle cannot be understood.
    #[error("pickle, byte {at}: {reason}")]
    Pickle {
        /// Where the instruction begins.
        at: usize,
        /// What is wrong.
        reason: String,
    },
    /// The pickle asks for something that no checkpoint needs.
    #[error(
        "pickle asks for `{name}`, which checkpoints have no use for: it was not looked up and \
         nothing was executed"
    )]
    Global {
        /// The name asked for.
        name: String,
    },
    /// Reading would take more memory than the file's size justifies.
    #[error("{what} would take more than {limit} bytes, out of proportion to the file")]
    OutOfProportion {
        /// What is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A tensor is no view of its storage.
    #[error("tensor `{name}` {reason} (shape {shape:?}, strides {strides:?}, offset {offset})")]
    View {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Vec<i64>,
        /// Its strides, in elements.
        strides: Vec<i64>,
        /// Its first element in the storage.
        offset: i64,
        /// What is wrong.
        reason: String,
    },
    /// An entry of a dingo model is missing or is not what belongs there.
    #[error("`{name}`: expected {expected}, got {found}")]
    Entry {
        /// Path of the entry, as in the file.
        name: String,
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A network of a family that is read, described and converted, but not built.
    #[error(
        "networks with {name} `{found}` are not built here: the file can be inspected and converted"
    )]
    NotBuilt {
        /// The setting that says the family.
        name: String,
        /// Its value.
        found: String,
    },
    /// The network itself refused.
    #[error(transparent)]
    Flow(#[from] dunnart_flow::Error),
}

/// How a state dict differs from what its network needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetMismatch {
    /// Keys that fit.
    pub loaded: usize,
    /// Keys of the network that are not in the file.
    pub missing: Vec<String>,
    /// Keys of the file that the network does not have.
    pub unexpected: Vec<String>,
}

impl std::fmt::Display for KeySetMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "keys do not match the network: {} fit, {} missing, {} unexpected, nothing was loaded",
            self.loaded,
            self.missing.len(),
            self.unexpected.len()
        )?;
        for (what, names) in [("missing", &self.missing), ("unexpected", &self.unexpected)] {
            if names.is_empty() {
                continue;
            }
            let listed: Vec<_> = names
                .iter()
                .take(LISTED)
                .map(|n| format!("`{n}`"))
                .collect();
            write!(f, "; {what}: {}", listed.join(", "))?;
            if names.len() > LISTED {
                write!(f, " and {} more", names.len() - LISTED)?;
            }
        }
        Ok(())
    }
}

fn previous_hint(previous: Option<&std::path::Path>) -> String {
    match previous {
        Some(path) => format!(" (the save before it is whole: {})", path.display()),
        None => String::new(),
    }
}
