//! The questions as Rust expressions.

use marmota::group::{avg, count, max, min, sum};
use marmota::model::Comparison;
use marmota::prelude::*;
use marmota::related::{many, one};
use tutorials::music::{
    Album, Artist, Customer, Employee, Genre, Invoice, InvoiceLine, Playlist, PlaylistTrack, Track,
};

use crate::Rows;
use crate::cells::{amount, day, key, pairs, row, single, text};

pub(crate) fn first_artists(store: &Store) -> Result<Rows> {
    Ok(single(
        store
            .list::<Artist>()
            .order(Artist::NAME.ascending())
            .limit(10)
            .column(Artist::NAME)
            .run()?,
    ))
}

pub(crate) fn customers_abroad(store: &Store) -> Result<Rows> {
    let rows = store.list::<Customer>().filter(Customer::COUNTRY.ne("USA")).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.last_name, one.country]).collect())
}

pub(crate) fn customers_in_south_america(store: &Store) -> Result<Rows> {
    let list = store.list::<Customer>().filter(Customer::COUNTRY.is_in(["Brazil", "Chile"]));
    let rows = list.order(Customer::EMAIL.ascending()).run()?;
    Ok(rows.into_iter().map(|one| row![one.email, one.city]).collect())
}

pub(crate) fn sales_agents(store: &Store) -> Result<Rows> {
    let rows = store.list::<Employee>().filter(Employee::TITLE.eq("Sales Support Agent")).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.last_name]).collect())
}

pub(crate) fn long_tracks(store: &Store) -> Result<Rows> {
    let count = store.count::<Track>().filter(Track::MILLISECONDS.gt(300_000)).run()?;
    Ok(vec![row![count]])
}

pub(crate) fn longest_tracks(store: &Store) -> Result<Rows> {
    let list = store.list::<Track>().filter(Track::MILLISECONDS.gt(450_000));
    let rows = list.order(Track::MILLISECONDS.descending()).order(Track::ID.ascending()).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.milliseconds]).collect())
}

pub(crate) fn tracks_without_composer(store: &Store) -> Result<Rows> {
    Ok(vec![row![store.count::<Track>().filter(Track::COMPOSER.is_null()).run()?]])
}

pub(crate) fn velvet_albums(store: &Store) -> Result<Rows> {
    let list = store.list::<Album>().filter(Album::TITLE.starts_with("Velvet"));
    let list = list.order(Album::TITLE.ascending()).order(Album::ID.ascending());
    Ok(single(list.column(Album::TITLE).run()?))
}

pub(crate) fn moon_artists(store: &Store) -> Result<Rows> {
    Ok(single(
        store.list::<Artist>().filter(Artist::NAME.contains("Moon")).column(Artist::ID).run()?,
    ))
}

pub(crate) fn hired_in_2003(store: &Store) -> Result<Rows> {
    let (first, last) = (day("2003-01-01"), day("2003-12-31"));
    let filter = Employee::HIRE_DATE.ge(first).and(Employee::HIRE_DATE.le(last));
    Ok(single(store.list::<Employee>().filter(filter).column(Employee::LAST_NAME).run()?))
}

pub(crate) fn invoices_of_brazilians(store: &Store) -> Result<Rows> {
    let filter = Invoice::CUSTOMER.to(Customer::COUNTRY.eq("Brazil"));
    let rows = store.list::<Invoice>().filter(filter).with(one(Invoice::CUSTOMER)).run()?;
    let cells = |(invoice, customer): (Invoice, Option<Customer>)| {
        let customer = customer.unwrap();
        row![invoice.id, invoice.invoice_date, customer.first_name, customer.last_name]
    };
    Ok(rows.into_iter().map(cells).collect())
}

pub(crate) fn customers_with_agents(store: &Store) -> Result<Rows> {
    let rows = store.list::<Customer>().with(one(Customer::SUPPORT_REP)).run()?;
    let cells = |(customer, agent): (Customer, Option<Employee>)| {
        row![customer.id, text(agent.map(|agent| agent.last_name))]
    };
    Ok(rows.into_iter().map(cells).collect())
}

pub(crate) fn invoices_with_agents(store: &Store) -> Result<Rows> {
    let filter = Invoice::TOTAL.gt(amount("8"));
    let rows = store.list::<Invoice>().filter(filter).with(one(Invoice::CUSTOMER)).run()?;
    let agents = store.list::<Employee>().run()?;
    let cells = |(invoice, customer): (Invoice, Option<Customer>)| {
        let customer = customer.unwrap();
        let agent = agents.iter().find(|agent| Some(Ref::new(agent.id)) == customer.support_rep);
        row![invoice.id, customer.last_name, text(agent.map(|agent| &agent.last_name))]
    };
    Ok(rows.into_iter().map(cells).collect())
}

pub(crate) fn lines_of_an_invoice(store: &Store) -> Result<Rows> {
    let filter = InvoiceLine::INVOICE.eq(Ref::new(37));
    let rows = store.list::<InvoiceLine>().filter(filter).with(one(InvoiceLine::TRACK)).run()?;
    rows.into_iter()
        .map(|(line, track)| {
            let track = track.unwrap();
            let album =
                track.album.map(|album| store.get::<Album>(*album.key()).run()).transpose()?;
            Ok(row![line.id, track.name, text(album.map(|album| album.title))])
        })
        .collect()
}

pub(crate) fn tracks_of_an_artist(store: &Store) -> Result<Rows> {
    let filter = Track::ALBUM.to(Album::ARTIST.eq(Ref::new(8)));
    Ok(single(store.list::<Track>().filter(filter).column(Track::ID).run()?))
}

pub(crate) fn albums_of_artists(store: &Store) -> Result<Rows> {
    let albums = many(Album::ARTIST).order(Album::TITLE.ascending()).limit(2);
    let rows = store.list::<Artist>().filter(Artist::ID.le(10)).with(albums).run()?;
    let cells = |(artist, albums): (Artist, Vec<Album>)| {
        let titles: Vec<String> = albums.into_iter().map(|album| album.title).collect();
        row![artist.id, titles.join(";")]
    };
    Ok(rows.into_iter().map(cells).collect())
}

pub(crate) fn bosses(store: &Store) -> Result<Rows> {
    let rows = store.list::<Employee>().with(one(Employee::REPORTS_TO)).run()?;
    let cells = |(employee, boss): (Employee, Option<Employee>)| {
        row![employee.last_name, text(boss.map(|boss| boss.last_name))]
    };
    Ok(rows.into_iter().map(cells).collect())
}

pub(crate) fn unsold_tracks(store: &Store) -> Result<Rows> {
    let unsold = InvoiceLine::TRACK.none(Filter::all([]));
    let filter = Track::GENRE.eq(Ref::new(1)).and(unsold);
    Ok(single(store.list::<Track>().filter(filter).column(Track::ID).run()?))
}

pub(crate) fn large_customers(store: &Store) -> Result<Rows> {
    let filter = Invoice::CUSTOMER.any(Invoice::TOTAL.gt(amount("8")));
    Ok(single(store.list::<Customer>().filter(filter).column(Customer::ID).run()?))
}

pub(crate) fn opera_lovers(store: &Store) -> Result<Rows> {
    let opera = InvoiceLine::TRACK.to(Track::GENRE.to(Genre::NAME.eq("Opera")));
    let filter = Invoice::CUSTOMER.any(InvoiceLine::INVOICE.any(opera));
    Ok(single(store.list::<Customer>().filter(filter).column(Customer::ID).run()?))
}

pub(crate) fn long_albums(store: &Store) -> Result<Rows> {
    let filter = Track::ALBUM.count(Filter::all([]), Comparison::Greater, 15);
    Ok(single(store.list::<Album>().filter(filter).column(Album::TITLE).run()?))
}

pub(crate) fn playlists_with_a_composer(store: &Store) -> Result<Rows> {
    let by_silva = PlaylistTrack::TRACK.to(Track::COMPOSER.eq("Silva"));
    let filter = PlaylistTrack::PLAYLIST.any(by_silva);
    Ok(single(store.list::<Playlist>().filter(filter).column(Playlist::ID).run()?))
}

pub(crate) fn empty_playlists(store: &Store) -> Result<Rows> {
    let filter = PlaylistTrack::PLAYLIST.none(Filter::all([]));
    Ok(single(store.list::<Playlist>().filter(filter).column(Playlist::NAME).run()?))
}

pub(crate) fn countries(store: &Store) -> Result<Rows> {
    Ok(single(store.list::<Invoice>().group_by(Invoice::BILLING_COUNTRY).run()?))
}

pub(crate) fn invoices_by_country(store: &Store) -> Result<Rows> {
    let groups = store.list::<Invoice>().group_by(Invoice::BILLING_COUNTRY).select(count());
    Ok(pairs(groups.order(count().descending()).run()?))
}

pub(crate) fn sales_of_2011(store: &Store) -> Result<Rows> {
    let (first, last) = (day("2011-01-01"), day("2011-12-31"));
    let filter = Invoice::INVOICE_DATE.ge(first).and(Invoice::INVOICE_DATE.le(last));
    let list = store.list::<Invoice>().filter(filter);
    let (count, total) = list.aggregate((count(), sum(Invoice::TOTAL))).run()?;
    Ok(vec![row![count, text(total)]])
}

pub(crate) fn lines_by_invoice(store: &Store) -> Result<Rows> {
    let list = store.list::<InvoiceLine>().filter(InvoiceLine::INVOICE.le(Ref::new(20)));
    let groups = list.group_by(InvoiceLine::INVOICE).select(count()).run()?;
    Ok(groups.into_iter().map(|(invoice, count)| row![invoice.key(), count]).collect())
}

pub(crate) fn tracks_by_playlist(store: &Store) -> Result<Rows> {
    let groups =
        store.list::<PlaylistTrack>().group_by(PlaylistTrack::PLAYLIST).select(count()).run()?;
    Ok(groups.into_iter().map(|(playlist, count)| row![playlist.key(), count]).collect())
}

pub(crate) fn sales_of_an_agent(store: &Store) -> Result<Rows> {
    let filter = Invoice::CUSTOMER.to(Customer::SUPPORT_REP.eq(Ref::new(3)));
    let total = store.list::<Invoice>().filter(filter).aggregate(sum(Invoice::TOTAL)).run()?;
    Ok(vec![row![text(total)]])
}

pub(crate) fn customers_by_agent(store: &Store) -> Result<Rows> {
    let groups = store.list::<Customer>().group_by(Customer::SUPPORT_REP).select(count()).run()?;
    Ok(groups.into_iter().map(|(agent, count)| row![key(agent), count]).collect())
}

pub(crate) fn best_tracks(store: &Store) -> Result<Rows> {
    let groups = store.list::<InvoiceLine>().group_by(InvoiceLine::TRACK);
    let groups = groups.select(sum(InvoiceLine::QUANTITY));
    let groups = groups.order(sum(InvoiceLine::QUANTITY).descending()).limit(5).run()?;
    Ok(groups.into_iter().map(|(track, sold)| row![track.key(), text(sold)]).collect())
}

pub(crate) fn best_customers(store: &Store) -> Result<Rows> {
    let groups = store.list::<Invoice>().group_by(Invoice::CUSTOMER).select(sum(Invoice::TOTAL));
    let groups = groups.order(sum(Invoice::TOTAL).descending()).limit(3).run()?;
    Ok(groups.into_iter().map(|(customer, total)| row![customer.key(), text(total)]).collect())
}

pub(crate) fn lengths_by_genre(store: &Store) -> Result<Rows> {
    let length = Track::MILLISECONDS;
    let groups = store.list::<Track>().group_by(Track::GENRE);
    let groups = groups.select((avg(length), min(length), max(length))).run()?;
    let cells = |(genre, (mean, shortest, longest))| {
        row![key::<Genre>(genre), text::<f64>(mean), text::<i64>(shortest), text::<i64>(longest)]
    };
    Ok(groups.into_iter().map(cells).collect())
}

pub(crate) fn large_countries(store: &Store) -> Result<Rows> {
    let groups =
        store.list::<Invoice>().group_by(Invoice::BILLING_COUNTRY).select(sum(Invoice::TOTAL));
    let groups = groups.having(sum(Invoice::TOTAL).gt(amount("200"))).run()?;
    Ok(groups.into_iter().map(|(country, total)| row![country, text(total)]).collect())
}
