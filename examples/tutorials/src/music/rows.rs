//! The rows of the music store: the same at each call, with the numbers of rows of Chinook.

use marmota::prelude::*;

use super::{
    Album, Artist, Customer, Employee, Genre, Invoice, InvoiceLine, MediaType, Playlist,
    PlaylistTrack, Track,
};
use crate::generated::{Random, date, insert};

const GENRES: [&str; 25] = [
    "Rock",
    "Jazz",
    "Metal",
    "Alternative & Punk",
    "Rock And Roll",
    "Blues",
    "Latin",
    "Reggae",
    "Pop",
    "Soundtrack",
    "Bossa Nova",
    "Easy Listening",
    "Heavy Metal",
    "R&B/Soul",
    "Electronica/Dance",
    "World",
    "Hip Hop/Rap",
    "Science Fiction",
    "TV Shows",
    "Sci Fi & Fantasy",
    "Drama",
    "Comedy",
    "Alternative",
    "Classical",
    "Opera",
];
const MEDIA: [&str; 5] = ["MPEG audio", "AAC audio", "Protected AAC audio", "MPEG-4 video", "FLAC"];
const COUNTRIES: [(&str, &str); 12] = [
    ("USA", "Redmond"),
    ("Canada", "Edmonton"),
    ("Brazil", "São Paulo"),
    ("France", "Bourges"),
    ("Germany", "Berlin"),
    ("United Kingdom", "London"),
    ("Czech Republic", "Prague"),
    ("Portugal", "Lisbon"),
    ("India", "Delhi"),
    ("Norway", "Oslo"),
    ("Chile", "Santiago"),
    ("Hungary", "Budapest"),
];
const WORDS: [&str; 20] = [
    "Black", "River", "Love", "Night", "Blue", "Fire", "Dream", "Stone", "Golden", "Rain", "Wild",
    "Heart", "Silver", "Road", "Moon", "Thunder", "Ocean", "Velvet", "Echo", "Shadow",
];
const NAMES: [&str; 20] = [
    "Almeida",
    "Peeters",
    "Hansen",
    "Tremblay",
    "Schneider",
    "Novák",
    "Goyer",
    "Silva",
    "Martins",
    "Johansson",
    "Murray",
    "Köhler",
    "Rojas",
    "Sampaio",
    "Barnett",
    "Chase",
    "Gray",
    "Lefebvre",
    "Mancini",
    "Wójcik",
];

/// Inserts all rows into an empty store.
///
/// # Errors
/// Errors of the store.
pub fn fill(store: &Store) -> Result<()> {
    let random = &mut Random(11);
    insert(store, (1..=275).map(|n| Artist { id: 0, name: title(random, n) }))?;
    let album = |n| Album { id: 0, title: title(random, n), artist: random.key(204) };
    insert(store, (1..=347).map(album))?;
    insert(store, GENRES.map(|name| Genre { id: 0, name: name.to_owned() }))?;
    insert(store, MEDIA.map(|name| MediaType { id: 0, name: name.to_owned() }))?;
    let track = |n| Track {
        id: 0,
        name: title(random, n),
        album: (random.below(50) > 0).then(|| random.key(347)),
        media_type: random.key(5),
        genre: (random.below(30) > 0).then(|| random.key(25)),
        composer: (random.below(4) > 0).then(|| random.of(&NAMES).to_owned()),
        milliseconds: 60_000 + random.below(400_000) as i64,
        bytes: 1_000_000 + random.below(9_000_000) as i64,
        unit_price: Currency::from_scaled(if random.below(15) == 0 { 19_900 } else { 9_900 }),
    };
    insert(store, (1..=3_503).map(track))?;
    people(store, random)?;
    sales(store, random)?;
    insert(store, (1..=18).map(|n| Playlist { id: 0, name: title(random, n) }))?;
    let mut listed = std::collections::BTreeSet::new();
    while listed.len() < 8_715 {
        // The last playlists have no tracks.
        listed.insert((random.below(15) as i64 + 1, random.below(3_503) as i64 + 1));
    }
    let listed = listed.into_iter().map(|(playlist, track)| PlaylistTrack {
        id: 0,
        playlist: Ref::new(playlist),
        track: Ref::new(track),
    });
    insert(store, listed)
}

fn title(random: &mut Random, number: usize) -> String {
    format!("{} {} {number}", random.of(&WORDS), random.of(&WORDS))
}

fn people(store: &Store, random: &mut Random) -> Result<()> {
    const TITLES: [&str; 8] = [
        "General Manager",
        "Sales Manager",
        "Sales Support Agent",
        "Sales Support Agent",
        "Sales Support Agent",
        "IT Manager",
        "IT Staff",
        "IT Staff",
    ];
    const BOSSES: [i64; 8] = [0, 1, 2, 2, 2, 1, 6, 6];
    let employee = |n: usize| Employee {
        id: 0,
        last_name: NAMES[n].to_owned(),
        first_name: WORDS[n].to_owned(),
        title: TITLES[n].to_owned(),
        reports_to: (BOSSES[n] > 0).then(|| Ref::new(BOSSES[n])),
        hire_date: date(2_002 + n as i64 % 3, n),
        city: "Calgary".to_owned(),
    };
    for n in 0..8 {
        store.insert(&employee(n)).run()?;
    }
    let customer = |n: usize| {
        let (country, city) = random.of(&COUNTRIES);
        Customer {
            id: 0,
            first_name: random.of(&WORDS).to_owned(),
            last_name: NAMES[n % 20].to_owned(),
            company: (random.below(6) == 0).then(|| format!("{} Ltd.", random.of(&WORDS))),
            city: city.to_owned(),
            country: country.to_owned(),
            email: format!("customer{n}@example.org"),
            support_rep: Some(Ref::new(random.below(3) as i64 + 3)),
        }
    };
    insert(store, (1..=59).map(customer))
}

fn sales(store: &Store, random: &mut Random) -> Result<()> {
    let mut lines: Vec<InvoiceLine> = Vec::with_capacity(2_240);
    let mut invoices: Vec<Invoice> = Vec::with_capacity(412);
    for n in 0..412 {
        let count = if n < 180 { 6 } else { 5 };
        let mut total = 0;
        for _ in 0..count {
            let scaled = if random.below(12) == 0 { 19_900 } else { 9_900 };
            total += scaled;
            lines.push(InvoiceLine {
                id: 0,
                invoice: Ref::new(n as i64 + 1),
                // Two thirds of the tracks are never sold.
                track: random.key(1_984),
                unit_price: Currency::from_scaled(scaled),
                quantity: 1,
            });
        }
        let (billing_country, billing_city) = random.of(&COUNTRIES);
        invoices.push(Invoice {
            id: 0,
            customer: random.key(59),
            invoice_date: date(2_009 + n as i64 / 83, n),
            billing_city: billing_city.to_owned(),
            billing_country: billing_country.to_owned(),
            total: Currency::from_scaled(total),
        });
    }
    insert(store, invoices)?;
    insert(store, lines)
}
