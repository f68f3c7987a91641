//! The program on generated feeds, compared with a simple implementation in the test.

#![allow(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};

/// The program on a free port.
struct Program(Child, u16);

impl Program {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_transit"))
            .args(["--port", "0", "--data"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.map(Result::unwrap).find_map(|line| {
            let (_, place) = line.split_once("http://")?;
            place.split([':', '/']).nth(1)?.parse().ok()
        });
        Self(child, port.expect("it prints its address"))
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> ureq::http::Response<ureq::Body> {
        let mut request = ureq::get(format!("http://127.0.0.1:{}{path}", self.1));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.call().unwrap()
    }

    fn json(&self, route: &str) -> Json {
        let answer = self.get(&format!("/schedules/{route}"), &[]);
        assert_eq!(answer.headers()["content-type"], "application/json");
        serde_json::from_str(&answer.into_body().read_to_string().unwrap()).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes the two files of a feed.
fn feed(trips: &str, stop_times: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trips.txt"), trips).unwrap();
    std::fs::write(folder.path().join("stop_times.txt"), stop_times).unwrap();
    folder
}

/// The expected response for a route, computed with loops over the files.
fn plain(folder: &Path, route: &str) -> Json {
    let rows = |name: &str, fields: &[&str]| -> Vec<Vec<String>> {
        let mut reader = csv::Reader::from_path(folder.join(name)).unwrap();
        let header = reader.headers().unwrap().clone();
        let place = |field: &&str| header.iter().position(|name| name == *field).unwrap();
        let places: Vec<usize> = fields.iter().map(place).collect();
        let row = |row: csv::Result<csv::StringRecord>| {
            let row = row.unwrap();
            places.iter().map(|&place| row[place].to_owned()).collect()
        };
        reader.records().map(row).collect()
    };
    let times = rows("stop_times.txt", &["trip_id", "stop_id", "arrival_time", "departure_time"]);
    let answer = |trip: &Vec<String>| {
        let times = times.iter().filter(|time| time[0] == trip[0]);
        let schedules: Vec<Json> = times
            .map(|time| json!({"stop_id": time[1], "arrival_time": time[2], "departure_time": time[3]}))
            .collect();
        json!({"trip_id": trip[0], "service_id": trip[1], "route_id": trip[2], "schedules": schedules})
    };
    let trips = rows("trips.txt", &["trip_id", "service_id", "route_id"]);
    trips.iter().filter(|trip| trip[2] == route).map(answer).collect()
}

const TRIPS: &str = "route_id,service_id,trip_id,trip_headsign\n\
    Red,Weekday,a,\"Alewife, \"\"express\"\"\"\nBlue,Sunday,b,x\nRed,Sunday,c,\n\
    \"R & B/1\",\"Week\"\"day\",d,\nRed,Sunday,none,\n";
const STOP_TIMES: &str = "trip_id,arrival_time,departure_time,stop_id,stop_sequence\n\
    c,24:10:00,24:10:00,\"70,061\",1\na,7:05:00,7:06:00,70061,2\nb,,,çà,1\nc,,24:20:00,x,2\n\
    a,6:59:00,,70063,1\nlost,1:00:00,1:00:00,y,1\nd,1:00:00,1:00:00,\"\"\"y\"\"\",1\n";

#[test]
fn answers_are_joined_in_the_order_of_the_files() {
    let folder = feed(TRIPS, STOP_TIMES);
    let program = Program::start(folder.path());
    assert_eq!(
        program.json("Red"),
        json!([
            {"trip_id": "a", "service_id": "Weekday", "route_id": "Red", "schedules": [
                {"stop_id": "70061", "arrival_time": "7:05:00", "departure_time": "7:06:00"},
                {"stop_id": "70063", "arrival_time": "6:59:00", "departure_time": ""},
            ]},
            {"trip_id": "c", "service_id": "Sunday", "route_id": "Red", "schedules": [
                {"stop_id": "70,061", "arrival_time": "24:10:00", "departure_time": "24:10:00"},
                {"stop_id": "x", "arrival_time": "", "departure_time": "24:20:00"},
            ]},
            {"trip_id": "none", "service_id": "Sunday", "route_id": "Red", "schedules": []},
        ])
    );
    assert_eq!(program.json("R%20%26%20B%2F1"), plain(folder.path(), "R & B/1"));
    assert_eq!(program.json("R%20%26%20B%2F1")[0]["schedules"][0]["stop_id"], "\"y\"");
    assert_eq!(program.get("/schedules/Green", &[]).into_body().read_to_string().unwrap(), "[]");
    assert_eq!(program.json("%FF%22"), json!([]));
}

#[test]
fn answers_for_random_feeds_match_a_simple_implementation() {
    for seed in 0..6 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (trips_count, times_count) = (rng.usize(..300), rng.usize(..6000));
        let mut trips = "service_id,trip_id,x,route_id\n".to_owned();
        for trip in 0..trips_count {
            let (service, route) = (rng.u8(..4), rng.u8(..5));
            trips.push_str(&format!("s{service},\"t,{trip}\",,r{route}\n"));
        }
        let mut times = "stop_id,departure_time,trip_id,arrival_time\r\n".to_owned();
        for _ in 0..times_count {
            let (stop, trip, minute) = (rng.u16(..900), rng.u16(..320), rng.u16(..1600));
            times.push_str(&format!("{stop},{minute},\"t,{trip}\",{}\r\n", minute / 2));
        }
        let folder = feed(&trips, &times);
        let program = Program::start(folder.path());
        for route in ["r0", "r1", "r2", "r3", "r4", "r5"] {
            assert_eq!(program.json(route), plain(folder.path(), route), "{seed} {route}");
        }
    }
}

#[test]
fn answers_are_compressed_and_revalidated() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_transit"))
        .args(["generate", "--scale", "0.02", "--seed", "7", "--dir"])
        .arg(folder.path())
        .status();
    assert!(made.unwrap().success());
    let program = Program::start(folder.path());
    let expected = plain(folder.path(), "Red");
    assert!(expected.as_array().unwrap().len() > 3);
    let coded = |coding: &str| {
        let answer = program.get("/schedules/Red", &[("accept-encoding", coding)]);
        let used = answer.headers().get("content-encoding").cloned();
        assert_eq!(answer.headers()["vary"], "Accept-Encoding");
        let mut bytes = Vec::new();
        answer.into_body().into_reader().read_to_end(&mut bytes).unwrap();
        (used.map(|used| used.to_str().unwrap().to_owned()), bytes)
    };
    let (used, bytes) = coded("gzip");
    assert_eq!(used.as_deref(), Some("gzip"));
    let json: Json = serde_json::from_reader(flate2::read::GzDecoder::new(&*bytes)).unwrap();
    assert_eq!(json, expected);
    let (used, bytes) = coded("gzip, zstd;q=1.0");
    assert_eq!(used.as_deref(), Some("zstd"));
    let json: Json = serde_json::from_slice(&zstd::decode_all(&*bytes).unwrap()).unwrap();
    assert_eq!(json, expected);
    let (used, bytes) = coded("identity");
    assert_eq!((used, serde_json::from_slice::<Json>(&bytes).unwrap()), (None, expected));

    let answer = program.get("/schedules/Red", &[]);
    let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
    let answer = program.get("/schedules/Red", &[("if-none-match", &etag)]);
    assert_eq!(
        (answer.status().as_u16(), answer.headers()["etag"].to_str().unwrap()),
        (304, &*etag)
    );
    let answer = program.get("/schedules/Red", &[("if-none-match", "\"other\"")]);
    assert_eq!(answer.status(), 200);
}

#[test]
fn the_same_seed_generates_the_same_feed() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: &str| {
        let status = Command::new(env!("CARGO_BIN_EXE_transit"))
            .args(["generate", "--scale", "0.01", "--seed", seed, "--dir"])
            .arg(folder.path().join(name))
            .status();
        assert!(status.unwrap().success());
        let read = |file| std::fs::read_to_string(folder.path().join(name).join(file)).unwrap();
        (read("trips.txt"), read("stop_times.txt"))
    };
    let (trips, times) = make("a", "3");
    assert_eq!((trips.lines().count(), times.lines().count()), (711, 17_910));
    assert!(make("b", "3") == (trips.clone(), times));
    assert!(make("c", "4").0 != trips);
}

#[test]
fn broken_feeds_are_reported() {
    for (trips, times, expected) in [
        (
            TRIPS,
            "trip_id,stop_id,arrival_time\n",
            "stop_times.txt: the file has no column `departure_time`",
        ),
        ("route_id,service_id,trip_id\nRed,x\n", STOP_TIMES, "trips.txt, line 2, column 1:"),
    ] {
        let folder = feed(trips, times);
        let program =
            Command::new(env!("CARGO_BIN_EXE_transit")).arg("--data").arg(folder.path()).output();
        let output = program.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{errors}");
    }
    let folder = tempfile::tempdir().unwrap();
    let program =
        Command::new(env!("CARGO_BIN_EXE_transit")).arg("--data").arg(folder.path()).output();
    let errors = String::from_utf8_lossy(&program.unwrap().stderr).into_owned();
    assert!(errors.contains("cannot read") && errors.contains("stop_times.txt"), "{errors}");
}
