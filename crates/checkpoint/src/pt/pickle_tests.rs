use super::*;
use crate::pt::globals::StorageKind;

/// Protocol 2 around some instructions.
fn around(body: &[u8]) -> Vec<u8> {
    [b"\x80\x02", body, b"."].concat()
}

fn loaded(body: &[u8]) -> (Heap, Value) {
    load(&around(body), 1000).unwrap()
}

fn fault(body: &[u8]) -> String {
    load(&around(body), 1000).unwrap_err().to_string()
}

#[test]
fn scalars() {
    for (body, expected) in [
        (&b"N"[..], Value::None),
        (b"\x88", Value::Bool(true)),
        (b"\x89", Value::Bool(false)),
        (b"K\xff", Value::Int(255)),
        (b"M\x01\x02", Value::Int(513)),
        (b"J\xfe\xff\xff\xff", Value::Int(-2)),
        (b"\x8a\x00", Value::Int(0)),
        (b"\x8a\x02\x00\xff", Value::Int(-256)),
        (
            b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
            Value::Int(i64::MAX),
        ),
        (b"\x8b\x01\x00\x00\x00\x7f", Value::Int(127)),
        (b"G\xbf\xf8\x00\x00\x00\x00\x00\x00", Value::Float(-1.5)),
    ] {
        assert_eq!(loaded(body).1, expected);
    }
    let (heap, value) = loaded(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00");
    assert!(matches!(heap.node(value), Some(Node::Large(bytes)) if bytes.len() == 9));
}

#[test]
fn text_and_bytes_in_every_spelling() {
    for body in [
        &b"X\x03\x00\x00\x00\xc3\xa9x"[..],
        b"\x8c\x03\xc3\xa9x",
        b"\x8d\x03\x00\x00\x00\x00\x00\x00\x00\xc3\xa9x",
        b"U\x03\xc3\xa9x",
        b"T\x03\x00\x00\x00\xc3\xa9x",
    ] {
        let (heap, value) = loaded(body);
        assert_eq!(heap.as_text(value), Some("éx"));
    }
    let encoded = b"c_codecs\nencode\nX\x02\x00\x00\x00\xc3\xa9X\x06\x00\x00\x00latin1\x86R";
    for (body, expected) in [
        (&b"C\x02\xff\x00"[..], &[255, 0][..]),
        (b"B\x01\x00\x00\x00x", b"x"),
        (b"\x8e\x01\x00\x00\x00\x00\x00\x00\x00x", b"x"),
        (b"\x96\x01\x00\x00\x00\x00\x00\x00\x00x", b"x"),
        (encoded, &[0xe9]),
    ] {
        let (heap, value) = loaded(body);
        assert!(matches!(heap.node(value), Some(Node::Bytes(b)) if **b == *expected));
    }
}

#[test]
fn containers_and_the_memo() {
    // A dict of a list that is its own second value, and tuples of every length.
    let (heap, root) = loaded(b"}q\x00(K\x01]q\x01(K\x02N\x88)\x85eK\x03h\x01u");
    let items = &heap.as_dict(root).unwrap().items;
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].1, items[1].1);
    let list = heap.as_sequence(items[0].1).unwrap();
    assert_eq!(&list[..2], [Value::Int(2), Value::None]);
    assert_eq!(heap.as_sequence(list[3]).unwrap().len(), 1);
    let (heap, root) = loaded(b"(K\x01K\x02K\x03tK\x01K\x02\x86K\x01K\x02K\x03\x87\x87");
    let lengths = heap.as_sequence(root).unwrap().iter();
    let lengths: Vec<_> = lengths
        .map(|&v| heap.as_sequence(v).unwrap().len())
        .collect();
    assert_eq!(lengths, [3, 2, 3]);
    // Protocol 4: frames, memoize, a global from the stack, a set.
    let body = b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00\x8c\x0bcollections\x94\x8c\x0bOrderedDict\x94\x93\x94)R\x94K\x07\x8f\x94(K\x01K\x02\x90sh\x030.";
    let (heap, root) = load(body, 1000).unwrap();
    let items = &heap.as_dict(root).unwrap().items;
    assert!(matches!(heap.node(items[0].1), Some(Node::Set(v)) if v.len() == 2));
    // A long memo index, a value that is thrown away, a mark that is thrown away.
    let (_, root) = loaded(b"K\x05r\xff\xff\xff\xff0(0j\xff\xff\xff\xff20");
    assert_eq!(root, Value::Int(5));
}

#[test]
fn tensors_and_parameters() {
    let tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nHalfStorage\n\
        X\x01\x00\x00\x007X\x06\x00\x00\x00cuda:0K\x06tQK\x01K\x02\x85K\x03\x85\x89ccollections\nOrderedDict\n)RtR";
    let parameter = [
        b"ctorch._utils\n_rebuild_parameter\n",
        &tensor[..],
        b"\x88N\x87R",
    ]
    .concat();
    for body in [&tensor[..], &parameter] {
        let (heap, value) = loaded(body);
        let tensor = heap.as_tensor(value).unwrap();
        assert_eq!(tensor.storage.kind, StorageKind::Half);
        assert_eq!((&*tensor.storage.key, tensor.storage.elements), ("7", 6));
        assert_eq!(
            (tensor.offset, &*tensor.shape, &*tensor.strides),
            (1, &[2][..], &[3][..])
        );
    }
}

#[test]
fn numpy_numbers() {
    let scalar = |kind: &str, order: &str, bytes: &[u8]| {
        let mut body =
            b"cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\n(X\x02\x00\x00\x00".to_vec();
        body.extend(kind.as_bytes());
        body.extend(b"\x89\x88tR(K\x03X\x01\x00\x00\x00");
        body.extend(order.as_bytes());
        body.extend(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbC");
        body.push(bytes.len() as u8);
        body.extend(bytes);
        body.extend(b"\x86R");
        load(&around(&body), 1000)
    };
    let float = (-0.1f64).to_le_bytes();
    assert_eq!(scalar("f8", "<", &float).unwrap().1, Value::Float(-0.1));
    let big = (-0.1f64).to_be_bytes();
    assert_eq!(scalar("f8", ">", &big).unwrap().1, Value::Float(-0.1));
    assert_eq!(
        scalar("f4", "<", &1.5f32.to_le_bytes()).unwrap().1,
        Value::Float(1.5)
    );
    assert_eq!(scalar("i2", "<", &[0xfe, 0xff]).unwrap().1, Value::Int(-2));
    assert_eq!(
        scalar("u2", "<", &[0xfe, 0xff]).unwrap().1,
        Value::Int(0xfffe)
    );
    assert_eq!(
        scalar("i8", ">", &7i64.to_be_bytes()).unwrap().1,
        Value::Int(7)
    );
    assert_eq!(scalar("b1", "|", &[1]).unwrap().1, Value::Bool(true));
    for (kind, bytes) in [
        ("f8", &[0; 4][..]),
        ("i4", &[0; 8]),
        ("O8", &[0; 8]),
        ("i8", &[]),
    ] {
        let error = scalar(kind, "<", bytes).unwrap_err().to_string();
        assert!(error.contains(kind), "{error}");
    }
}

#[test]
fn other_names_are_refused_by_name() {
    for (body, name) in [
        (&b"cos\nsystem\nX\x02\x00\x00\x00id\x85R"[..], "os.system"),
        (b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R", "builtins.eval"),
        (b"cposix\nsystem\n", "posix.system"),
        (
            b"ctorch.storage\n_load_from_bytes\n",
            "torch.storage._load_from_bytes",
        ),
        (b"\x8c\x02os\x8c\x06system\x93", "os.system"),
        (b"ctorch\nUntypedStorage\n", "torch.UntypedStorage"),
    ] {
        let text = fault(body);
        assert!(
            text.contains(&format!("`{name}`")) && text.contains("executed"),
            "{text}"
        );
    }
    for (body, what) in [
        (&b"(X\x02\x00\x00\x00idios\nsystem\n"[..], "0x69"),
        (b"\x82\x01", "0x82"),
        (b"I1\n", "0x49"),
    ] {
        assert!(fault(body).contains(what), "{}", fault(body));
    }
}

#[test]
fn calls_that_make_no_sense() {
    for (body, what) in [
        (&b"NNR"[..], "no name of a function"),
        (b"ccollections\nOrderedDict\nNR", "no tuple"),
        (b"ccollections\nOrderedDict\nK\x01\x85R", "list of pairs"),
        (b"ccollections\nOrderedDict\nK\x01K\x02\x86R", "2 arguments"),
        (
            b"ctorch._utils\n_rebuild_tensor_v2\n(NK\x00))tR",
            "no storage",
        ),
        (b"ctorch._utils\n_rebuild_parameter\nN\x85R", "no tensor"),
        (b"ctorch\nFloatStorage\n)R", "Storage(Float)"),
        (b"NQ", "no storage"),
        (b"(X\x07\x00\x00\x00storageNNNK\x01tQ", "no storage"),
        (b"NN\x85b", "state"),
        (b"NNa", "no list"),
        (b"NNNs", "no dict"),
        (b"}(Nu", "without a value"),
        (b"K\x01K\x02", "left over"),
        (b"(K\x01", "left over"),
        (b"t", "mark"),
        (b"(\x850", "not there"),
        (b"0", "not there"),
        (b"h\x05", "memo entry 5"),
        (b"X\x01\x00\x00\x00\xff", "UTF-8"),
    ] {
        assert!(fault(body).contains(what), "{}: {}", what, fault(body));
    }
    assert!(
        load(b"\x80\x01N.", 10)
            .unwrap_err()
            .to_string()
            .contains("protocol 1")
    );
    assert!(
        load(b"\x80\x06N.", 10)
            .unwrap_err()
            .to_string()
            .contains("protocol 6")
    );
    assert!(
        load(b"N.x", 10)
            .unwrap_err()
            .to_string()
            .contains("last byte")
    );
}

#[test]
fn lengths_beyond_the_end_allocate_nothing() {
    for body in [
        &b"X\xff\xff\xff\xffx"[..],
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffx",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx",
        b"B\xff\xff\xff\x7fx",
        b"\x8b\xff\xff\xff\xff",
        b"C\xffx",
        b"c",
        b"cabc\nabc",
        b"",
    ] {
        let text = load(body, 100).unwrap_err().to_string();
        assert!(text.contains("left") || text.contains("end"), "{text}");
    }
}

#[test]
fn bombs_run_out_of_their_budget() {
    // Many nodes from few bytes.
    let lists = b"]".repeat(1 << 20);
    assert!(fault(&lists).contains("262144"), "{}", fault(&lists));
    let popped = b"]0".repeat(1 << 20);
    let error = load(&around(&popped), 1000).unwrap_err();
    assert!(matches!(error, Error::OutOfProportion { .. }), "{error}");
    let memo: Vec<u8> = (0..1u32 << 20)
        .flat_map(|i| [&b"r"[..], &i.to_le_bytes()].concat())
        .collect();
    let error = load(&around(&[b"N", &memo[..]].concat()), 1000).unwrap_err();
    assert!(matches!(error, Error::OutOfProportion { .. }), "{error}");
    // A list that doubles at every step is small here and refused where it would be copied.
    let mut doubling = b"]q\x000".to_vec();
    for i in 0..40u8 {
        doubling.extend([b']', b'q', i + 1, b'(', b'h', i, b'h', i, b'e', b'0']);
    }
    doubling.extend(b"h\x28");
    let cyclic = b"]q\x00h\x00a".to_vec();
    for body in [doubling, cyclic] {
        let (heap, root) = loaded(&body);
        let error = crate::pt::ToJson::new(&heap, 1000)
            .convert("root", root, crate::pt::Tuples::AsArrays)
            .unwrap_err();
        let known = matches!(error, Error::OutOfProportion { .. } | Error::Entry { .. });
        assert!(known, "{error}");
    }
}
