//! Forms: no panic, and the same parts, or the same refusal, in whatever pieces the body comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_http::{Endpoint, Method, Multipart, MultipartError, Request, Router, TestRequest};

/// Lists the parts of a form: what the head of each has, and its data.
async fn list(request: Request) -> Result<String, MultipartError> {
    let mut form = Multipart::of(&request)?;
    let mut list = String::new();
    while let Some(mut part) = form.next().await? {
        let head = (part.name().to_owned(), part.file_name().map(str::to_owned));
        let media_type = part.content_type().to_owned();
        let mut data = Vec::new();
        while part.read(&mut data).await? > 0 {}
        list += &format!("{head:?} {media_type:?} {data:?}\n");
    }
    Ok(list)
}

fn in_pieces(router: &Router, body: &[u8], piece_bytes: usize) -> (u16, String) {
    let request = TestRequest::post("/")
        .header("Content-Type", "multipart/form-data; boundary=b")
        .body(body)
        .piece_bytes(piece_bytes);
    match router.call(request) {
        Ok(answer) => (answer.status().code(), answer.text().to_owned()),
        Err(error) => panic!("the form has no answer: {error}"),
    }
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, body) = input;
    // The position at which a limit is exceeded may depend on the pieces.
    if body.len() < 4096 {
        let endpoint = Endpoint::future(list).streamed(1 << 20);
        let router = Router::new().on(Method::Post, "/", endpoint);
        let whole = in_pieces(&router, body, usize::MAX);
        assert_eq!(whole, in_pieces(&router, body, usize::from(step).max(1)));
    }
});
