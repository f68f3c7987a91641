//! Generates a feed (GTFS: `trips.txt` and `stop_times.txt`) with the shape and size of a real one,
//! for tests and benchmarks without a download. The same seed generates the same feed.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::PathBuf;

use fastrand::Rng;

/// Rows of the two files at scale 1.
const TRIPS: usize = 71_091;
const STOP_TIMES: usize = 1_790_905;
/// The number of different stops of all routes.
const STOPS: usize = 9_200;
const SERVICES: usize = 120;

/// The named routes with their share of trips and the stops per trip; numbered bus routes follow in
/// [`BUS_ROUTES`].
const NAMED_ROUTES: [(&str, usize, usize); 34] = [
    ("Red", 15, 19),
    ("Mattapan", 16, 8),
    ("Orange", 14, 20),
    ("Green-B", 13, 23),
    ("Green-C", 12, 18),
    ("Green-D", 12, 23),
    ("Green-E", 12, 23),
    ("Blue", 18, 12),
    ("741", 16, 11),
    ("742", 12, 11),
    ("743", 14, 13),
    ("751", 10, 11),
    ("749", 16, 13),
    ("746", 3, 6),
    ("CR-Fairmount", 4, 9),
    ("CR-Fitchburg", 4, 18),
    ("CR-Worcester", 5, 17),
    ("CR-Franklin", 4, 15),
    ("CR-Greenbush", 3, 10),
    ("CR-Haverhill", 4, 14),
    ("CR-Kingston", 3, 10),
    ("CR-Lowell", 4, 9),
    ("CR-Middleborough", 3, 10),
    ("CR-Needham", 4, 12),
    ("CR-Newburyport", 5, 12),
    ("CR-Providence", 5, 13),
    ("CR-Foxboro", 2, 8),
    ("Boat-F4", 5, 3),
    ("Boat-F1", 4, 5),
    ("Boat-EastBoston", 6, 3),
    ("747", 8, 18),
    ("708", 4, 30),
    ("CapeFlyer", 2, 9),
    ("Shuttle-Generic", 2, 12),
];

#[rustfmt::skip]
const BUS_ROUTES: [&str; 134] = [
    "1", "4", "7", "8", "9", "10", "11", "14", "15", "16", "17", "18", "19", "21", "22", "23",
    "24", "26", "28", "29", "30", "31", "32", "33", "34", "34E", "35", "36", "37", "38", "39",
    "40", "41", "42", "43", "44", "45", "47", "50", "51", "52", "55", "57", "59", "60", "61",
    "62", "64", "65", "66", "67", "68", "69", "70", "71", "73", "74", "75", "76", "77", "78",
    "79", "80", "83", "84", "85", "86", "87", "88", "89", "90", "91", "92", "93", "94", "95",
    "96", "97", "99", "100", "101", "104", "105", "106", "108", "109", "110", "111", "112",
    "114", "116", "117", "119", "120", "121", "131", "132", "134", "137", "171", "201", "202",
    "210", "211", "215", "216", "217", "220", "222", "225", "226", "230", "236", "238", "240",
    "245", "350", "351", "352", "354", "411", "424", "426", "428", "429", "430", "435", "436",
    "439", "441", "442", "450", "455", "456",
];

struct Route {
    name: &'static str,
    trips: usize,
    stops: usize,
}

/// The options of the generator.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder to write to
    #[arg(long, value_name = "DIR", default_value = "data")]
    dir: PathBuf,
    /// Size relative to the real feed
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Writes both files of a feed.
pub(crate) fn generate(Arguments { dir: folder, scale, seed }: &Arguments) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let (scale, seed) = (scale.max(0.0), *seed);
    let mut rng = Rng::with_seed(seed);
    let routes = routes(scale, &mut rng);
    let stops: Vec<String> = (0..STOPS).map(|stop| stop_name(stop, &mut rng)).collect();
    let mut trips = BufWriter::new(File::create(folder.join("trips.txt"))?);
    let mut times = BufWriter::new(File::create(folder.join("stop_times.txt"))?);
    writeln!(
        trips,
        "route_id,service_id,trip_id,trip_headsign,trip_short_name,direction_id,block_id,shape_id,\
         wheelchair_accessible,bikes_allowed"
    )?;
    writeln!(
        times,
        "trip_id,arrival_time,departure_time,stop_id,stop_sequence,stop_headsign,pickup_type,\
         drop_off_type,timepoint,checkpoint_id"
    )?;
    let (mut trip, mut times_left) = (0, (STOP_TIMES as f64 * scale) as usize);
    // Trips are stretched one by one, so that the number of rows is the requested one.
    let mut usual_left: usize = routes.iter().map(|route| route.trips * route.stops).sum();
    for route in &routes {
        let first_stop = rng.usize(..STOPS);
        for _ in 0..route.trips {
            let name = trip_name(route.name, trip, &mut rng);
            write_trip(&mut trips, route.name, &name, &mut rng)?;
            trip += 1;
            let usual = route.stops * times_left / usual_left;
            usual_left -= route.stops;
            let spread = usual / 4;
            let count = match usual_left {
                0 => times_left,
                _ => rng.usize(usual - spread..=usual + spread).min(times_left),
            };
            times_left -= count;
            let way = stops.iter().cycle().skip(first_stop + rng.usize(..4)).take(count);
            write_stop_times(&mut times, &name, way, &mut rng)?;
        }
    }
    trips.flush()?;
    times.flush()
}

fn routes(scale: f64, rng: &mut Rng) -> Vec<Route> {
    let named = NAMED_ROUTES;
    let buses = BUS_ROUTES.map(|name| (name, rng.usize(2..30), rng.usize(22..48)));
    let all = || named.iter().chain(&buses);
    let weights: usize = all().map(|&(_, weight, _)| weight).sum();
    let mut left = (TRIPS as f64 * scale) as usize;
    let mut weights_left = weights;
    let share = |&(name, weight, stops): &(&'static str, usize, usize)| {
        let trips = left * weight / weights_left;
        left -= trips;
        weights_left -= weight;
        Route { name, trips, stops }
    };
    all().map(share).collect()
}

fn stop_name(stop: usize, rng: &mut Rng) -> String {
    match stop % 23 {
        0 => format!("place-{}", rng.u32(10_000..99_999)),
        1 => format!("door-{stop}-{}", rng.u32(1..9)),
        _ => format!("{}", 1_000 + stop * 7),
    }
}

fn trip_name(route: &str, trip: usize, rng: &mut Rng) -> String {
    if route.starts_with("CR-") {
        return format!("CR-{}-{}", 580_000 + trip, rng.u32(100..999));
    }
    format!("{}", 57_000_000 + trip * 3)
}

fn write_trip(out: &mut impl Write, route: &str, trip: &str, rng: &mut Rng) -> Result<()> {
    const HEADSIGNS: [&str; 6] = [
        "Alewife",
        "\"Ashmont, by Broadway\"",
        "Nubian",
        "\"Harvard \"\"Square\"\"\"",
        "Forêt des Érables",
        "Ruggles",
    ];
    let service = rng.usize(..SERVICES);
    let day = ["Weekday", "Saturday", "Sunday"][service % 3];
    let headsign = HEADSIGNS[rng.usize(..HEADSIGNS.len())];
    let (direction, block, shape) = (rng.u32(..2), rng.u32(..400), rng.u32(..9_000));
    writeln!(
        out,
        "{route},BUS{service:03}-{day}-02,{trip},{headsign},,{direction},B{block:03}-17,{shape:06},1,1"
    )
}

fn write_stop_times<'a>(
    out: &mut impl Write,
    trip: &str,
    stops: impl Iterator<Item = &'a String>,
    rng: &mut Rng,
) -> Result<()> {
    // From 5 in the morning; the last trips end after midnight, at 25 o'clock.
    let mut minute = rng.u32(5 * 60..24 * 60 + 30);
    for (sequence, stop) in stops.enumerate() {
        let wait = u32::from(rng.u32(..40) == 0);
        let (from, to) = (time(minute), time(minute + wait));
        let point = u32::from(sequence % 6 == 0);
        if rng.u32(..500) == 0 && sequence > 0 {
            writeln!(out, "{trip},,,{stop},{},,0,0,0,", sequence + 1)?;
        } else {
            writeln!(out, "{trip},{from},{to},{stop},{},,0,{point},{point},", sequence + 1)?;
        }
        minute += wait + rng.u32(..4);
    }
    Ok(())
}

fn time(minute: u32) -> String {
    format!("{:02}:{:02}:00", minute / 60, minute % 60)
}
