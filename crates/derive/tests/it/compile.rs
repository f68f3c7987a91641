//! What is refused, and with which words: tests/fail/*.stderr. What passes
//! that could be thought not to: tests/pass.

#[test]
fn refused_models_say_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
}
