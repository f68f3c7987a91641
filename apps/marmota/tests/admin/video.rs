//! A video in a file field: Chromium records it, uploads it, and plays it by ranges.

use std::sync::{Arc, Mutex};

use marmota::files::{File, FileStorage};
use marmota::http::{Next, Request, Response};
use marmota::prelude::*;
use marmota::rest::Api;
use serde_json::Value;

use crate::browser::{Driver, Look, run};

#[derive(Clone, Debug, Model)]
struct Clip {
    id: i64,
    #[model(bytes_max = "50 MB", types("video/*"))]
    film: Option<File>,
}

/// Records noise for two seconds, since a video of one color has few bytes.
const RECORD: &str = "
    globalThis.result = null;
    (async () => {
        const canvas = Object.assign(document.createElement('canvas'), { width: 640, height: 480 });
        const context = canvas.getContext('2d');
        const options = { mimeType: 'video/webm;codecs=vp8', videoBitsPerSecond: 20_000_000 };
        const recorder = new MediaRecorder(canvas.captureStream(25), options);
        const parts = [];
        recorder.ondataavailable = event => parts.push(event.data);
        const stopped = new Promise(resolve => { recorder.onstop = resolve });
        recorder.start();
        for (let frame = 0; frame < 50; frame++) {
            const image = context.createImageData(640, 480);
            for (let at = 0; at < image.data.length; at++) image.data[at] = Math.random() * 256;
            context.putImageData(image, 0, 0);
            await new Promise(resolve => setTimeout(resolve, 40));
        }
        recorder.stop();
        await stopped;
        const film = new Blob(parts, { type: 'video/webm' });
        const sent = await fetch('/api/clip/1/film', { method: 'PUT', body: film });
        return { status: sent.status, bytes: film.size };
    })().then(value => { globalThis.result = value }, error => { globalThis.result = String(error) })";

/// Plays the film to its end, then from its beginning.
const PLAY: &str = "
    globalThis.result = null;
    (async () => {
        const video = document.createElement('video');
        const next = name => new Promise((resolve, reject) => {
            video.addEventListener(name, resolve, { once: true });
            video.addEventListener('error', () => reject(video.error.message), { once: true });
        });
        video.muted = true;
        video.src = '/api/clip/1/film';
        document.body.append(video);
        const ended = next('ended');
        await video.play();
        await ended;
        const length = video.currentTime;
        const sought = next('seeked');
        video.currentTime = 0.1;
        await sought;
        return { width: video.videoWidth, length, time: video.currentTime };
    })().then(value => { globalThis.result = value }, error => { globalThis.result = String(error) })";

#[test]
fn a_browser_plays_a_video_by_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FileStorage::open(folder.path().to_str().unwrap()).unwrap();
    let store = storage.attach(marmota::open("memory:").unwrap().model::<Clip>()).open().unwrap();
    storage.start(&store).unwrap();
    store.insert(&Clip { id: 0, film: None }).run().unwrap();
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ranges);
    let note = move |request: Request, next: Next| {
        let seen = Arc::clone(&seen);
        async move {
            let range =
                request.header("Range").map(|range| String::from_utf8_lossy(range).into_owned());
            let answer: Response = next.run(request).await;
            if let Some(range) = range {
                seen.lock().unwrap().push((range, answer.status().code()));
            }
            answer
        }
    };
    let router = Api::new(&store).files(&storage).router().wrap(note);
    let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.goto(&format!("http://{}/api/openapi.json", server.local_addr())).await;
        let result = async |script: &str| -> Value {
            page.run(script).await;
            page.wait("globalThis.result").await;
            page.run("return globalThis.result").await
        };
        let recorded = result(RECORD).await;
        assert_eq!(recorded["status"], 200, "{recorded}");
        let clip = store.get::<Clip>(1).run().unwrap();
        let film = clip.film.unwrap();
        assert_eq!(
            (Some(film.bytes), &*film.content_type),
            (recorded["bytes"].as_u64(), "video/webm")
        );
        let played = result(PLAY).await;
        assert_eq!(played["width"], 640, "{played}");
        assert!(played["length"].as_f64() > Some(0.5), "{played}");
        assert_eq!(played["time"], 0.1, "{played}");
        page.close().await;
    });
    let ranges = ranges.lock().unwrap();
    assert!(
        ranges.iter().any(|(range, status)| range == "bytes=0-" && *status == 206),
        "{ranges:?}"
    );
    assert!(ranges.iter().all(|(_, status)| *status == 206), "{ranges:?}");
    server.shutdown().unwrap();
    storage.stop();
}
