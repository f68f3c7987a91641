//! A music store with the tables and numbers of rows of the Chinook sample database.

mod rows;

use marmota::prelude::*;
pub use rows::fill;

#[derive(Clone, Debug, Model)]
pub struct Artist {
    pub id: i64,
    #[model(max = 120)]
    pub name: String,
}

#[derive(Clone, Debug, Model)]
pub struct Album {
    pub id: i64,
    #[model(max = 160)]
    pub title: String,
    pub artist: Ref<Artist>,
}

#[derive(Clone, Debug, Model)]
pub struct Genre {
    pub id: i64,
    #[model(max = 120)]
    pub name: String,
}

#[derive(Clone, Debug, Model)]
pub struct MediaType {
    pub id: i64,
    #[model(max = 120)]
    pub name: String,
}

#[derive(Clone, Debug, Model)]
#[model(relation(playlists = "playlist_track.playlist"))]
pub struct Track {
    pub id: i64,
    #[model(max = 200)]
    pub name: String,
    pub album: Option<Ref<Album>>,
    pub media_type: Ref<MediaType>,
    pub genre: Option<Ref<Genre>>,
    #[model(max = 220)]
    pub composer: Option<String>,
    pub milliseconds: i64,
    pub bytes: i64,
    pub unit_price: Currency,
}

#[derive(Clone, Debug, Model)]
pub struct Employee {
    pub id: i64,
    #[model(max = 20)]
    pub last_name: String,
    #[model(max = 20)]
    pub first_name: String,
    #[model(max = 30)]
    pub title: String,
    pub reports_to: Option<Ref<Employee>>,
    pub hire_date: Date,
    pub city: String,
}

#[derive(Clone, Debug, Model)]
pub struct Customer {
    pub id: i64,
    #[model(max = 40)]
    pub first_name: String,
    #[model(max = 20)]
    pub last_name: String,
    pub company: Option<String>,
    pub city: String,
    #[model(index)]
    pub country: String,
    #[model(email, unique)]
    pub email: String,
    pub support_rep: Option<Ref<Employee>>,
}

#[derive(Clone, Debug, Model)]
pub struct Invoice {
    pub id: i64,
    pub customer: Ref<Customer>,
    #[model(index)]
    pub invoice_date: Date,
    pub billing_city: String,
    #[model(index)]
    pub billing_country: String,
    pub total: Currency,
}

#[derive(Clone, Debug, Model)]
pub struct InvoiceLine {
    pub id: i64,
    pub invoice: Ref<Invoice>,
    pub track: Ref<Track>,
    pub unit_price: Currency,
    pub quantity: i64,
}

#[derive(Clone, Debug, Model)]
#[model(relation(tracks = "playlist_track.track"))]
pub struct Playlist {
    pub id: i64,
    #[model(max = 120)]
    pub name: String,
}

#[derive(Clone, Debug, Model)]
#[model(unique(playlist, track))]
pub struct PlaylistTrack {
    pub id: i64,
    pub playlist: Ref<Playlist>,
    pub track: Ref<Track>,
}

/// Opens the store at a URL.
///
/// # Errors
/// Errors of the engine.
pub fn open(url: &str) -> Result<Store> {
    let builder = marmota::open(url)?.model::<Artist>().model::<Album>().model::<Genre>();
    let builder = builder.model::<MediaType>().model::<Track>().model::<Employee>();
    let builder = builder.model::<Customer>().model::<Invoice>().model::<InvoiceLine>();
    builder.model::<Playlist>().model::<PlaylistTrack>().open()
}
