//! What is typed wrongly is told, with exit code 2.

use dunnart_tests::dunnart;

#[test]
fn unknown_words_are_named() {
    dunnart(["sampel"]).refused(&["sampel", "sample"]);
    dunnart(["inspect", "--jsno", "x"]).refused(&["--jsno", "--json"]);
    dunnart(["sample", "--checkpoint", "x"]).refused(&["--num-samples", "--out"]);
    let common = [
        "sample",
        "--checkpoint",
        "x",
        "--out",
        "y.npz",
        "--num-samples",
    ];
    for (number, text) in [("0", "positive"), ("-3", "-3"), ("many", "many")] {
        dunnart(common.into_iter().chain([number])).refused(&["--num-samples", text]);
    }
    let budget = ["1", "--max-draws", "5"];
    dunnart(common.into_iter().chain(budget)).refused(&["--reject-outside"]);
}

#[test]
fn help_and_version_are_good() {
    assert!(dunnart(["--help"]).good().contains("sample"));
    assert!(dunnart(["--version"]).good().starts_with("dunnart "));
}
