//! The names a pickle may call: a closed list, each with what it means here.
//!
//! Nothing is looked up by name anywhere else and nothing is ever executed.

/// A name that is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Global {
    OrderedDict,
    Set,
    /// `_rebuild_tensor_v2`.
    RebuildTensor,
    /// `_rebuild_parameter`.
    RebuildParameter,
    Size,
    Storage(StorageKind),
    /// A torch element type or layout as a value, by its name.
    Named(&'static str),
    /// `torch.serialization._get_layout`.
    GetLayout,
    Device,
    NumpyScalar,
    NumpyType,
    /// `_codecs.encode`: how protocol 2 spells bytes.
    Encode,
}

/// Element type of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    Double,
    Float,
    Half,
    BFloat16,
    Long,
    Int,
    Short,
    Char,
    Byte,
    Bool,
}

impl StorageKind {
    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Double | Self::Long => 8,
            Self::Float | Self::Int => 4,
            Self::Half | Self::BFloat16 | Self::Short => 2,
            Self::Char | Self::Byte | Self::Bool => 1,
        }
    }

    /// Name of torch's class.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Double => "DoubleStorage",
            Self::Float => "FloatStorage",
            Self::Half => "HalfStorage",
            Self::BFloat16 => "BFloat16Storage",
            Self::Long => "LongStorage",
            Self::Int => "IntStorage",
            Self::Short => "ShortStorage",
            Self::Char => "CharStorage",
            Self::Byte => "ByteStorage",
            Self::Bool => "BoolStorage",
        }
    }
}

const STORAGES: [StorageKind; 10] = [
    StorageKind::Double,
    StorageKind::Float,
    StorageKind::Half,
    StorageKind::BFloat16,
    StorageKind::Long,
    StorageKind::Int,
    StorageKind::Short,
    StorageKind::Char,
    StorageKind::Byte,
    StorageKind::Bool,
];

/// Values that torch pickles as names of itself.
const NAMED: [&str; 16] = [
    "float64", "float32", "float16", "bfloat16", "double", "float", "half", "int64", "int32",
    "int16", "int8", "uint8", "bool", "long", "int", "strided",
];

impl Global {
    /// The global of that module and name, if it is on the list.
    pub(crate) fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("builtins" | "__builtin__", "set" | "frozenset") => Self::Set,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", "Size") => Self::Size,
            ("torch", "device") => Self::Device,
            ("torch.serialization", "_get_layout") => Self::GetLayout,
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Self::NumpyScalar,
            ("numpy", "dtype") => Self::NumpyType,
            ("_codecs", "encode") => Self::Encode,
            ("torch" | "torch.cuda", _) => {
                let storage = STORAGES.into_iter().find(|s| s.name() == name);
                match storage {
                    Some(storage) => Self::Storage(storage),
                    None if module == "torch" => {
                        Self::Named(NAMED.into_iter().find(|&known| known == name)?)
                    }
                    None => return None,
                }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_list_is_found() {
        assert_eq!(
            Global::find("torch", "HalfStorage"),
            Some(Global::Storage(StorageKind::Half))
        );
        assert_eq!(
            Global::find("torch", "float32"),
            Some(Global::Named("float32"))
        );
        for (module, name) in [
            ("os", "system"),
            ("builtins", "eval"),
            ("torch", "load"),
            ("torch.cuda", "float32"),
            ("torch.storage", "_load_from_bytes"),
            ("collections", "OrderedDict.fromkeys"),
        ] {
            assert_eq!(Global::find(module, name), None, "{module}.{name}");
        }
    }
}
