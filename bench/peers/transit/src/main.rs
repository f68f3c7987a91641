//! The transit example as a conventional program with axum, csv and serde: two lists of structs,
//! and two hash maps from an id to positions in the lists. `--data DIR --port N`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::Router;
use axum::extract;
use axum::routing::get;
use serde::{Deserialize, Serialize};

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct StopTime {
    trip_id: String,
    stop_id: String,
    arrival_time: String,
    departure_time: String,
}

#[derive(Deserialize)]
struct Trip {
    trip_id: String,
    route_id: String,
    service_id: String,
}

#[derive(Serialize)]
struct ScheduleAnswer {
    stop_id: String,
    arrival_time: String,
    departure_time: String,
}

#[derive(Serialize)]
struct TripAnswer {
    trip_id: String,
    service_id: String,
    route_id: String,
    schedules: Vec<ScheduleAnswer>,
}

struct Data {
    trips: Vec<Trip>,
    trips_by_route: HashMap<String, Vec<usize>>,
    stop_times: Vec<StopTime>,
    stop_times_by_trip: HashMap<String, Vec<usize>>,
}

impl Data {
    fn load(folder: &Path) -> Result<Self, Failure> {
        let start = Instant::now();
        let (mut stop_times, mut stop_times_by_trip) = (Vec::new(), HashMap::new());
        let mut reader = csv::Reader::from_path(folder.join("stop_times.txt"))?;
        for record in reader.deserialize() {
            let record: StopTime = record?;
            let places: &mut Vec<usize> =
                stop_times_by_trip.entry(record.trip_id.clone()).or_default();
            places.push(stop_times.len());
            stop_times.push(record);
        }
        let (mut trips, mut trips_by_route) = (Vec::new(), HashMap::new());
        let mut reader = csv::Reader::from_path(folder.join("trips.txt"))?;
        for record in reader.deserialize() {
            let record: Trip = record?;
            let places: &mut Vec<usize> =
                trips_by_route.entry(record.route_id.clone()).or_default();
            places.push(trips.len());
            trips.push(record);
        }
        println!("loaded in {:.3} s", start.elapsed().as_secs_f64());
        Ok(Self { trips, trips_by_route, stop_times, stop_times_by_trip })
    }

    fn schedules(&self, route: &str) -> Vec<TripAnswer> {
        let trips = self.trips_by_route.get(route).map_or(&[][..], |places| places);
        let answer = |&place: &usize| {
            let trip = &self.trips[place];
            let times = self.stop_times_by_trip.get(&trip.trip_id).map_or(&[][..], |places| places);
            let schedule = |&place: &usize| {
                let time = &self.stop_times[place];
                ScheduleAnswer {
                    stop_id: time.stop_id.clone(),
                    arrival_time: time.arrival_time.clone(),
                    departure_time: time.departure_time.clone(),
                }
            };
            TripAnswer {
                trip_id: trip.trip_id.clone(),
                service_id: trip.service_id.clone(),
                route_id: trip.route_id.clone(),
                schedules: times.iter().map(schedule).collect(),
            }
        };
        trips.iter().map(answer).collect()
    }
}

async fn schedules(
    extract::State(data): extract::State<Arc<Data>>,
    extract::Path(route): extract::Path<String>,
) -> Json<Vec<TripAnswer>> {
    Json(data.schedules(&route))
}

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

fn main() -> Result<(), Failure> {
    let folder = option("--data").ok_or("--data DIR is needed")?;
    let port: u16 = option("--port").map_or(Ok(4000), |port| port.parse())?;
    let data = Arc::new(Data::load(Path::new(&folder))?);
    let router = Router::new().route("/schedules/{route_id}", get(schedules)).with_state(data);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        println!("listening on {}", listener.local_addr()?);
        Ok(axum::serve(listener, router).await?)
    })
}
