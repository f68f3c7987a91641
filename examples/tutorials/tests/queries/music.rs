//! Questions on the music store, in the order of the tutorials: rows, conditions, related rows,
//! groups.

mod in_rust;

use crate::Question;

pub(crate) const QUESTIONS: &[Question] = &[
    Question {
        name: "the first ten artists by name",
        sql: "SELECT name FROM artist ORDER BY name COLLATE \"C\", id LIMIT 10",
        rest: "/api/artist?order=name&limit=10&fields=name",
        members: &["name"],
        rust: in_rust::first_artists,
    },
    Question {
        name: "customers who are not in the USA",
        sql: "SELECT id, last_name, country FROM customer WHERE country <> 'USA' ORDER BY id",
        rest: "/api/customer?filter=country != 'USA'&order=id",
        members: &["id", "last_name", "country"],
        rust: in_rust::customers_abroad,
    },
    Question {
        name: "customers from Brazil or Chile",
        sql: "SELECT email, city FROM customer WHERE country IN ('Brazil', 'Chile') ORDER BY email COLLATE \"C\"",
        rest: "/api/customer?filter=country in ('Brazil','Chile')&order=email",
        members: &["email", "city"],
        rust: in_rust::customers_in_south_america,
    },
    Question {
        name: "employees who are sales agents",
        sql: "SELECT id, last_name FROM employee WHERE title = 'Sales Support Agent' ORDER BY id",
        rest: "/api/employee?title=Sales Support Agent&order=id",
        members: &["id", "last_name"],
        rust: in_rust::sales_agents,
    },
    Question {
        name: "the number of tracks of more than five minutes",
        sql: "SELECT count(*) FROM track WHERE milliseconds > 300000",
        rest: "/api/track?filter=milliseconds > 300000&limit=0&count=true",
        members: &["#count"],
        rust: in_rust::long_tracks,
    },
    Question {
        name: "the longest tracks",
        sql: "SELECT id, milliseconds FROM track WHERE milliseconds > 450000 ORDER BY milliseconds DESC, id",
        rest: "/api/track?filter=milliseconds > 450000&order=-milliseconds,id&fields=id,milliseconds&limit=1000",
        members: &["id", "milliseconds"],
        rust: in_rust::longest_tracks,
    },
    Question {
        name: "tracks without a composer",
        sql: "SELECT count(*) FROM track WHERE composer IS NULL",
        rest: "/api/track?filter=composer = null&limit=0&count=true",
        members: &["#count"],
        rust: in_rust::tracks_without_composer,
    },
    Question {
        name: "titles of albums that begin with Velvet",
        sql: "SELECT title FROM album WHERE title LIKE 'Velvet%' ORDER BY title COLLATE \"C\", id",
        rest: "/api/album?filter=title ^ 'Velvet'&order=title,id",
        members: &["title"],
        rust: in_rust::velvet_albums,
    },
    Question {
        name: "artists with Moon in their name",
        sql: "SELECT id FROM artist WHERE name LIKE '%Moon%' ORDER BY id",
        rest: "/api/artist?filter=name ~ 'Moon'&order=id",
        members: &["id"],
        rust: in_rust::moon_artists,
    },
    Question {
        name: "employees hired in 2003",
        sql: "SELECT last_name FROM employee WHERE hire_date BETWEEN '2003-01-01' AND '2003-12-31' ORDER BY id",
        rest: "/api/employee?filter=hire_date >= '2003-01-01' and hire_date <= '2003-12-31'&order=id",
        members: &["last_name"],
        rust: in_rust::hired_in_2003,
    },
    Question {
        name: "invoices of customers from Brazil, with the customer",
        sql: "SELECT i.id, i.invoice_date, c.first_name, c.last_name FROM invoice i \
              JOIN customer c ON c.id = i.customer WHERE c.country = 'Brazil' ORDER BY i.id",
        rest: "/api/invoice?filter=customer.country = 'Brazil'&order=id&limit=1000\
               &expand=customer(fields=first_name,last_name)",
        members: &["id", "invoice_date", "expand/customer/first_name", "expand/customer/last_name"],
        rust: in_rust::invoices_of_brazilians,
    },
    Question {
        name: "customers with their sales agent",
        sql: "SELECT c.id, e.last_name FROM customer c LEFT JOIN employee e ON e.id = c.support_rep \
              ORDER BY c.id",
        rest: "/api/customer?order=id&expand=support_rep(fields=last_name)",
        members: &["id", "expand/support_rep/last_name"],
        rust: in_rust::customers_with_agents,
    },
    Question {
        name: "invoices over 8 with customer and sales agent",
        sql: "SELECT i.id, c.last_name, e.last_name FROM invoice i JOIN customer c ON c.id = i.customer \
              JOIN employee e ON e.id = c.support_rep WHERE i.total > 8 ORDER BY i.id",
        rest: "/api/invoice?filter=total > 8&order=id&limit=1000\
               &expand=customer(fields=last_name,support_rep,expand=support_rep(fields=last_name))",
        members: &[
            "id",
            "expand/customer/last_name",
            "expand/customer/expand/support_rep/last_name",
        ],
        rust: in_rust::invoices_with_agents,
    },
    Question {
        name: "lines of the invoice 37, with track and album",
        sql: "SELECT l.id, t.name, coalesce(a.title, '') FROM invoice_line l JOIN track t ON t.id = l.track \
              LEFT JOIN album a ON a.id = t.album WHERE l.invoice = 37 ORDER BY l.id",
        rest: "/api/invoice_line?invoice=37&order=id\
               &expand=track(fields=name,album,expand=album(fields=title))",
        members: &["id", "expand/track/name", "expand/track/expand/album/title"],
        rust: in_rust::lines_of_an_invoice,
    },
    Question {
        name: "tracks of an artist",
        sql: "SELECT t.id FROM track t JOIN album a ON a.id = t.album WHERE a.artist = 8 ORDER BY t.id",
        rest: "/api/track?filter=album.artist.id = 8&order=id&fields=id",
        members: &["id"],
        rust: in_rust::tracks_of_an_artist,
    },
    Question {
        name: "an artist's first two albums by title",
        sql: "SELECT r.id, (SELECT string_agg(title, ';' ORDER BY title COLLATE \"C\") FROM (SELECT title FROM \
              album WHERE artist = r.id ORDER BY title COLLATE \"C\" LIMIT 2) two) FROM artist r \
              WHERE r.id <= 10 ORDER BY r.id",
        rest: "/api/artist?filter=id <= 10&order=id&expand=album(fields=title,order=title,limit=2)",
        members: &["id", "expand/album/title"],
        rust: in_rust::albums_of_artists,
    },
    Question {
        name: "employees with the one they report to",
        sql: "SELECT e.last_name, b.last_name FROM employee e LEFT JOIN employee b ON b.id = e.reports_to \
              ORDER BY e.id",
        rest: "/api/employee?order=id&expand=reports_to(fields=last_name)",
        members: &["last_name", "expand/reports_to/last_name"],
        rust: in_rust::bosses,
    },
    Question {
        name: "tracks that were never sold, of one genre",
        sql: "SELECT id FROM track t WHERE genre = 1 AND NOT EXISTS \
              (SELECT 1 FROM invoice_line l WHERE l.track = t.id) ORDER BY id",
        rest: "/api/track?filter=genre = 1 and none(invoice_line)&order=id&fields=id&limit=1000",
        members: &["id"],
        rust: in_rust::unsold_tracks,
    },
    Question {
        name: "customers with an invoice over 8",
        sql: "SELECT id FROM customer c WHERE EXISTS \
              (SELECT 1 FROM invoice i WHERE i.customer = c.id AND i.total > 8) ORDER BY id",
        rest: "/api/customer?filter=any(invoice, total > 8)&order=id&fields=id",
        members: &["id"],
        rust: in_rust::large_customers,
    },
    Question {
        name: "customers who bought opera",
        sql: "SELECT DISTINCT c.id FROM customer c JOIN invoice i ON i.customer = c.id JOIN invoice_line l \
              ON l.invoice = i.id JOIN track t ON t.id = l.track JOIN genre g ON g.id = t.genre \
              WHERE g.name = 'Opera' ORDER BY c.id",
        rest: "/api/customer?filter=any(invoice, any(invoice_line, track.genre.name = 'Opera'))&order=id&fields=id",
        members: &["id"],
        rust: in_rust::opera_lovers,
    },
    Question {
        name: "albums with more than 15 tracks",
        sql: "SELECT a.title FROM album a WHERE (SELECT count(*) FROM track t WHERE t.album = a.id) > 15 \
              ORDER BY a.id",
        rest: "/api/album?filter=count(track) > 15&order=id&fields=title",
        members: &["title"],
        rust: in_rust::long_albums,
    },
    Question {
        name: "playlists with a track by Silva",
        sql: "SELECT DISTINCT p.id FROM playlist p JOIN playlist_track x ON x.playlist = p.id \
              JOIN track t ON t.id = x.track WHERE t.composer = 'Silva' ORDER BY p.id",
        rest: "/api/playlist?filter=any(tracks, composer = 'Silva')&order=id&fields=id",
        members: &["id"],
        rust: in_rust::playlists_with_a_composer,
    },
    Question {
        name: "playlists without tracks",
        sql: "SELECT p.name FROM playlist p LEFT JOIN playlist_track x ON x.playlist = p.id \
              WHERE x.id IS NULL ORDER BY p.id",
        rest: "/api/playlist?filter=none(playlist_track)&order=id&fields=name",
        members: &["name"],
        rust: in_rust::empty_playlists,
    },
    Question {
        name: "countries of invoices",
        sql: "SELECT DISTINCT billing_country COLLATE \"C\" FROM invoice ORDER BY 1",
        rest: "/api/invoice?group=billing_country&select=count",
        members: &["billing_country"],
        rust: in_rust::countries,
    },
    Question {
        name: "the number of invoices of each country, the largest first",
        sql: "SELECT billing_country COLLATE \"C\", count(*) FROM invoice GROUP BY 1 ORDER BY 2 DESC, 1",
        rest: "/api/invoice?group=billing_country&select=count&order=-count,billing_country",
        members: &["billing_country", "count"],
        rust: in_rust::invoices_by_country,
    },
    Question {
        name: "sales of 2011",
        sql: "SELECT count(*), sum(total) FROM invoice WHERE invoice_date BETWEEN '2011-01-01' AND '2011-12-31'",
        rest: "/api/invoice?select=count,sum(total)\
               &filter=invoice_date >= '2011-01-01' and invoice_date <= '2011-12-31'",
        members: &["count", "sum_total"],
        rust: in_rust::sales_of_2011,
    },
    Question {
        name: "lines of each of the first invoices",
        sql: "SELECT invoice, count(*) FROM invoice_line WHERE invoice <= 20 GROUP BY 1 ORDER BY 1",
        rest: "/api/invoice_line?group=invoice&select=count&filter=invoice <= 20",
        members: &["invoice", "count"],
        rust: in_rust::lines_by_invoice,
    },
    Question {
        name: "tracks of each playlist",
        sql: "SELECT playlist, count(*) FROM playlist_track GROUP BY 1 ORDER BY 1",
        rest: "/api/playlist_track?group=playlist&select=count",
        members: &["playlist", "count"],
        rust: in_rust::tracks_by_playlist,
    },
    Question {
        name: "sales of a sales agent",
        sql: "SELECT sum(i.total) FROM invoice i JOIN customer c ON c.id = i.customer WHERE c.support_rep = 3",
        rest: "/api/invoice?filter=customer.support_rep = 3&select=sum(total)",
        members: &["sum_total"],
        rust: in_rust::sales_of_an_agent,
    },
    Question {
        name: "customers of each sales agent",
        sql: "SELECT support_rep, count(*) FROM customer GROUP BY 1 ORDER BY 1",
        rest: "/api/customer?group=support_rep&select=count",
        members: &["support_rep", "count"],
        rust: in_rust::customers_by_agent,
    },
    Question {
        name: "the five tracks sold most",
        sql: "SELECT track, sum(quantity) FROM invoice_line GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5",
        rest: "/api/invoice_line?group=track&select=sum(quantity)&order=-sum_quantity,track&limit=5",
        members: &["track", "sum_quantity"],
        rust: in_rust::best_tracks,
    },
    Question {
        name: "the three best customers",
        sql: "SELECT customer, sum(total) FROM invoice GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
        rest: "/api/invoice?group=customer&select=sum(total)&order=-sum_total,customer&limit=3",
        members: &["customer", "sum_total"],
        rust: in_rust::best_customers,
    },
    Question {
        name: "lengths by genre",
        sql: "SELECT genre, round(avg(milliseconds), 4), min(milliseconds), max(milliseconds) FROM track \
              GROUP BY 1 ORDER BY 1 NULLS FIRST",
        rest: "/api/track?group=genre&select=avg(milliseconds),min(milliseconds),max(milliseconds)",
        members: &["genre", "avg_milliseconds", "min_milliseconds", "max_milliseconds"],
        rust: in_rust::lengths_by_genre,
    },
    Question {
        name: "countries with sales over 200",
        sql: "SELECT billing_country COLLATE \"C\", sum(total) FROM invoice GROUP BY 1 HAVING sum(total) > 200 \
              ORDER BY 1",
        rest: "/api/invoice?group=billing_country&select=sum(total)&having=sum_total > 200",
        members: &["billing_country", "sum_total"],
        rust: in_rust::large_countries,
    },
];
