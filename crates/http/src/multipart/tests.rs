//! Forms in pieces of any length, malformed forms, and the limits.

use super::*;
use crate::proto::method::Method;
use crate::{Endpoint, Router, Status, TestRequest, TestResponse};

async fn list(request: Request) -> Result<String, MultipartError> {
    let mut form = Multipart::of(&request)?;
    let mut list = String::new();
    while let Some(mut part) = form.next().await? {
        let head = (part.name().to_owned(), part.file_name().map(str::to_owned));
        let media_type = part.content_type().to_owned();
        let mut data = Vec::new();
        while part.read(&mut data).await? > 0 {}
        list += &format!("{head:?} {media_type} {}\n", data.escape_ascii());
    }
    Ok(list)
}

/// Answers a form with the boundary `XX` that arrives in pieces of this many bytes.
fn send(form: &[u8], piece_bytes: usize) -> TestResponse {
    let endpoint = Endpoint::future(list).streamed(1 << 20);
    let router = Router::new().on(Method::Post, "/", endpoint);
    let request = TestRequest::post("/").header("Content-Type", "multipart/form-data; boundary=XX");
    router.call(request.body(form).piece_bytes(piece_bytes)).unwrap()
}

#[test]
fn parts_are_the_same_in_pieces_of_any_length() {
    let form =
        b"preamble\r\n--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--X\r\n\
        --XX \t\r\ncontent-type: text/csv\r\nCONTENT-DISPOSITION: form-data; \
        filename=\"C:\\dir\\b \\\"c\\\".csv\"; name=f;x=\"\r\n\r\n\r\n\
        --XX\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n\r\n--XX--\r\nepilogue";
    let expected = "(\"a\", None)  1\\r\\n--X\n(\"f\", Some(\"b \\\"c\\\".csv\")) text/csv \n\
        (\"\", None)  \n";
    for piece_bytes in [1, 2, 3, 5, 7, 11, 1000] {
        let answer = send(form, piece_bytes);
        assert_eq!((answer.status(), answer.text()), (Status::OK, expected), "{piece_bytes}");
    }
    assert_eq!(send(b"--XX--", 1).text(), "");
}

#[test]
fn malformed_forms_are_refused_in_pieces_of_any_length() {
    let long = [b'a'; 20_000];
    let headers = |count: usize| {
        let lines: Vec<String> = (0..count).map(|at| format!("x-{at}: {at}\r\n")).collect();
        let head = format!("--XX\r\n{}Content-Disposition: form-data; name=a", lines.concat());
        format!("{head}\r\n\r\n1\r\n--XX--\r\n")
    };
    let (few, many) = (headers(20), headers(40));
    assert_eq!(send(few.as_bytes(), 1000).status(), Status::OK);
    let long_head = |bytes: usize| {
        let head = format!("--XX\r\nContent-Disposition: form-data; name=a\r\nx: {:0>bytes$}", 1);
        format!("{head}\r\n\r\n1\r\n--XX--\r\n")
    };
    let (fits, exceeds) = (long_head(8_000), long_head(8_192));
    assert_eq!(send(fits.as_bytes(), 1000).status(), Status::OK);
    // The head of the second part is in memory already when the first one has been read.
    let second = format!("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n{exceeds}");
    for (form, reason) in [
        (&b"--XX\r\n\r\n"[..], "a boundary line is malformed"),
        (b"--XX\r\n\r\nx\r\n--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n", "no name"),
        (b"--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\n", "no name"),
        (b"--XX-", "a boundary line is malformed"),
        (b"--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nno end", "inside a part"),
        (b"--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--X", "inside a part"),
        (b"--XXX\r\n", "a boundary line is malformed"),
        (b"--XX\r\nno colon\r\n\r\n", "the header of a part is malformed"),
        (b"--XX\r\n\xff: a\r\n\r\n", "the header of a part is malformed"),
        (b"--XX\r\nContent-Disposition: form-data; name=a\r\nx: \xff\r\n\r\n", "not UTF-8"),
        (many.as_bytes(), "the header of a part is malformed"),
        (exceeds.as_bytes(), "too large"),
        (second.as_bytes(), "the header of a part is too large"),
        (&long, "a part is missing"),
        (&[&long[..8_193], b"\r\n--XX--"].concat(), "a part is missing"),
        (
            b"a--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--XX--",
            "at the start of a line",
        ),
        (b"\n--XX--", "at the start of a line"),
        (&[&b"--XX\r\n"[..], &long].concat(), "too large"),
    ] {
        let steps: &[usize] = if form.len() < 1000 { &[1, 7, 1000] } else { &[500, usize::MAX] };
        for &piece_bytes in steps {
            let answer = send(form, piece_bytes);
            let short = form[..form.len().min(60)].escape_ascii();
            assert_eq!(answer.status(), Status::BAD_REQUEST, "{short} {}", answer.text());
            assert!(answer.text().contains(reason), "{short} {piece_bytes} {}", answer.text());
        }
    }
}

/// Returns bytes like those of a form, with errors of every kind.
fn almost_a_form() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    let token = proptest::sample::select(vec![
        &b"--XX"[..],
        b"\r\n--XX\r\n",
        b"\r\n--XX--",
        b"\r\n",
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b"--",
        b" ",
        b"X",
        b"\xff",
        b"Content-Disposition: form-data; name=\"a\"\r\n\r\n",
        b"Content-Disposition: form-data; name=\"a\"; filename=\"b.c\"",
        b"Content-Type: text/csv\r\n",
        b"; filename*=UTF-8''x",
        b"name",
        b"=",
        b"\"",
        b"\\\"",
        b":",
    ]);
    let tokens = proptest::collection::vec(token, 0..14);
    proptest::strategy::Strategy::prop_map(tokens, |tokens| tokens.concat())
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]

    #[test]
    fn any_bytes_have_the_same_answer_in_pieces_of_any_length(
        form in almost_a_form(),
        starts_as_form in proptest::bool::ANY,
        piece_bytes in 1_usize..20,
    ) {
        let start: &[u8] = match starts_as_form {
            true => b"--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n",
            false => b"",
        };
        let form = [start, &form].concat();
        let (whole, pieces) = (send(&form, usize::MAX), send(&form, piece_bytes));
        proptest::prop_assert_eq!(whole.status(), pieces.status());
        proptest::prop_assert_eq!(whole.text(), pieces.text());
    }
}
