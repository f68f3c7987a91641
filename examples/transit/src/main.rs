//! A transit agency's schedules over HTTP. Two CSV files of a GTFS feed are loaded into columns,
//! and each response is joined from them while it is sent.
#![forbid(unsafe_code)]

mod generate;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use marmota::columns::{ColumnIndex, Columns, Join, JsonFields};
use marmota::csv::Loader;
use marmota::http::{BodyStream, HeaderError};
use marmota::prelude::*;

/// The size of a part of a response, which is made before it is sent.
const PIECE_BYTES: usize = 32 * 1024;

/// Serves `GET /schedules/{route_id}` from `trips.txt` and `stop_times.txt` of a GTFS feed.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The folder of the feed
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// The port to listen on, on every address
    #[arg(long, default_value_t = 4000)]
    port: u16,
}

#[derive(Subcommand)]
enum Command {
    /// Generates a feed with the shape and size of a real one
    Generate(generate::Arguments),
}

/// A row of `trips.txt`.
#[derive(Model)]
struct Trip {
    id: i64,
    trip_id: String,
    service_id: String,
    route_id: String,
}

/// A row of `stop_times.txt`. Times may be later than 24:00, and may be empty.
#[derive(Model)]
struct StopTime {
    id: i64,
    trip_id: String,
    stop_id: String,
    arrival_time: String,
    departure_time: String,
}

/// The state that requests share.
struct Schedules {
    by_route: ColumnIndex<String>,
    by_trip: Join,
    trip: JsonFields,
    stop_time: JsonFields,
    /// Differs if the files' rows differ.
    etag: String,
}

impl Schedules {
    fn load(folder: &Path) -> Result<Self> {
        let stop_times: Columns<StopTime> = load(folder, "stop_times.txt")?;
        let trips: Columns<Trip> = load(folder, "trips.txt")?;
        Ok(Self {
            by_route: trips.index(Trip::ROUTE_ID),
            by_trip: stop_times.index(StopTime::TRIP_ID).join(&trips, Trip::TRIP_ID),
            trip: trips.json(&["trip_id", "service_id", "route_id"])?,
            stop_time: stop_times.json(&["stop_id", "arrival_time", "departure_time"])?,
            etag: format!("{:x}-{:x}", trips.fingerprint(), stop_times.fingerprint()),
        })
    }

    /// Appends trips of a route, starting with the number `next`, until the part is large enough.
    fn piece(&self, route: &str, next: &mut usize, out: &mut Vec<u8>) -> ControlFlow<()> {
        let start = out.len();
        for (number, trip) in self.by_route.rows(route).enumerate().skip(*next) {
            if out.len() - start >= PIECE_BYTES {
                *next = number;
                return ControlFlow::Continue(());
            }
            out.extend_from_slice(if number == 0 { b"[{" } else { b",{" });
            self.trip.members(out, trip);
            out.extend_from_slice(br#","schedules":"#);
            self.stop_time.array(out, self.by_trip.rows(trip));
            out.push(b'}');
        }
        out.extend_from_slice(if self.by_route.rows(route).len() == 0 { b"[]" } else { b"]" });
        ControlFlow::Break(())
    }
}

/// Loads a file and shows a progress bar.
fn load<M: marmota::model::Model>(folder: &Path, name: &str) -> Result<Columns<M>> {
    let bar = ProgressBar::new(0).with_message(name.to_owned());
    let style = ProgressStyle::with_template("{msg:16} {bar:40} {bytes:>12}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let rows = Loader::new().progress(progress).load(folder.join(name))?;
    bar.finish();
    println!("{name}: {} rows in {:.3} s", rows.len(), bar.elapsed().as_secs_f64());
    Ok(rows)
}

fn answer(schedules: &Arc<Schedules>, request: &Request) -> Result<Response, HeaderError> {
    let route = request.param("route_id").unwrap_or_default().into_owned();
    let (all, mut next) = (Arc::clone(schedules), 0);
    let piece = move |out: &mut Vec<u8>| Ok(all.piece(&route, &mut next, out));
    let response = Response::streamed("application/json", BodyStream::new(piece));
    Ok(response.with_etag(request, &schedules.etag)?.compressed(request))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(Command::Generate(feed)) = &arguments.command {
        return Ok(generate::generate(feed)?);
    }
    let schedules = Arc::new(Schedules::load(&arguments.data)?);
    let router = Router::new().get("/schedules/{route_id}", move |request: Request| {
        std::future::ready(answer(&schedules, &request))
    });
    let server = Server::bind(("0.0.0.0", arguments.port))?;
    println!("schedules at http://{}/schedules/Red", server.local_addr());
    Ok(server.run(router)?)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transit: {error}");
            ExitCode::FAILURE
        }
    }
}
