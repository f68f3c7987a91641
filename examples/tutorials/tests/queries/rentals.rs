//! Questions on the rentals, in the order of the tutorials: rows, conditions, related rows, groups.

mod in_rust;

use crate::Question;

pub(crate) const QUESTIONS: &[Question] = &[
    Question {
        name: "the first ten actors by last name",
        sql: "SELECT first_name, last_name FROM actor ORDER BY last_name, first_name, id LIMIT 10",
        rest: "/api/actor?order=last_name,first_name,id&limit=10&fields=first_name,last_name",
        members: &["first_name", "last_name"],
        rust: in_rust::first_actors,
    },
    Question {
        name: "actors called Joe",
        sql: "SELECT id, last_name FROM actor WHERE first_name = 'JOE' ORDER BY id",
        rest: "/api/actor?first_name=JOE&order=id",
        members: &["id", "last_name"],
        rust: in_rust::actors_called_joe,
    },
    Question {
        name: "actors with gen in their last name",
        sql: "SELECT id FROM actor WHERE last_name ILIKE '%gen%' ORDER BY id",
        rest: "/api/actor?filter=last_name ~ 'gen'&order=id&fields=id",
        members: &["id"],
        rust: in_rust::actors_with_gen,
    },
    Question {
        name: "actors with li in their last name, by last name and first name",
        sql: "SELECT last_name, first_name FROM actor WHERE last_name ILIKE '%li%' \
              ORDER BY last_name, first_name, id",
        rest: "/api/actor?filter=last_name ~ 'li'&order=last_name,first_name,id",
        members: &["last_name", "first_name"],
        rust: in_rust::actors_with_li,
    },
    Question {
        name: "three countries",
        sql: "SELECT id, name FROM country WHERE name IN ('Afghanistan', 'Bangladesh', 'China') ORDER BY id",
        rest: "/api/country?filter=name in ('Afghanistan','Bangladesh','China')&order=id",
        members: &["id", "name"],
        rust: in_rust::three_countries,
    },
    Question {
        name: "the number of actors with each last name",
        sql: "SELECT last_name, count(*) FROM actor GROUP BY 1 ORDER BY 1",
        rest: "/api/actor?group=last_name&select=count",
        members: &["last_name", "count"],
        rust: in_rust::last_names,
    },
    Question {
        name: "last names of at least ten actors",
        sql: "SELECT last_name, count(*) FROM actor GROUP BY 1 HAVING count(*) >= 10 ORDER BY 1",
        rest: "/api/actor?group=last_name&select=count&having=count >= 10",
        members: &["last_name", "count"],
        rust: in_rust::frequent_last_names,
    },
    Question {
        name: "the staff with their addresses",
        sql: "SELECT s.first_name, s.last_name, a.street FROM staff s JOIN address a ON a.id = s.address \
              ORDER BY s.id",
        rest: "/api/staff?order=id&expand=address(fields=street)",
        members: &["first_name", "last_name", "expand/address/street"],
        rust: in_rust::staff_with_addresses,
    },
    Question {
        name: "what each of the staff took in August 2005",
        sql: "SELECT s.last_name, sum(p.amount) FROM payment p JOIN staff s ON s.id = p.staff \
              WHERE p.payment_date BETWEEN '2005-08-01' AND '2005-08-31' GROUP BY 1 ORDER BY 1",
        rest: "/api/payment?group=staff.last_name&select=sum(amount)\
               &filter=payment_date >= '2005-08-01' and payment_date <= '2005-08-31'",
        members: &["staff_last_name", "sum_amount"],
        rust: in_rust::staff_in_august,
    },
    Question {
        name: "the ten films with the most actors",
        sql: "SELECT f.title, count(*) FROM film_actor a JOIN film f ON f.id = a.film GROUP BY 1 \
              ORDER BY 2 DESC, 1 LIMIT 10",
        rest: "/api/film_actor?group=film.title&select=count&order=-count,film_title&limit=10",
        members: &["film_title", "count"],
        rust: in_rust::films_with_most_actors,
    },
    Question {
        name: "the number of copies of a film",
        sql: "SELECT count(*) FROM inventory i JOIN film f ON f.id = i.film WHERE f.title = 'HUNCHBACK IMPOSSIBLE'",
        rest: "/api/inventory?filter=film.title = 'HUNCHBACK IMPOSSIBLE'&limit=0&count=true",
        members: &["#count"],
        rust: in_rust::copies_of_a_film,
    },
    Question {
        name: "the ten customers who paid the most",
        sql: "SELECT c.last_name, c.first_name, sum(p.amount) FROM payment p \
              JOIN customer c ON c.id = p.customer GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10",
        rest: "/api/payment?group=customer.last_name,customer.first_name&select=sum(amount)\
               &order=-sum_amount&limit=10",
        members: &["customer_last_name", "customer_first_name", "sum_amount"],
        rust: in_rust::best_customers,
    },
    Question {
        name: "English films that begin with K or Q",
        sql: "SELECT f.id FROM film f JOIN language l ON l.id = f.language WHERE l.name = 'English' \
              AND (f.title LIKE 'K%' OR f.title LIKE 'Q%') ORDER BY f.id",
        rest: "/api/film?filter=language.name = 'English' and (title ^ 'K' or title ^ 'Q')\
               &order=id&fields=id&limit=1000",
        members: &["id"],
        rust: in_rust::english_films,
    },
    Question {
        name: "the actors of a film",
        sql: "SELECT DISTINCT a.id, a.last_name FROM actor a JOIN film_actor x ON x.actor = a.id \
              JOIN film f ON f.id = x.film WHERE f.title = 'ALONE TRIP' ORDER BY a.id",
        rest: "/api/actor?filter=any(films, title = 'ALONE TRIP')&order=id",
        members: &["id", "last_name"],
        rust: in_rust::actors_of_a_film,
    },
    Question {
        name: "customers in Canada",
        sql: "SELECT c.id, c.email FROM customer c JOIN address a ON a.id = c.address JOIN city t \
              ON t.id = a.city JOIN country n ON n.id = t.country WHERE n.name = 'Canada' ORDER BY c.id",
        rest: "/api/customer?filter=address.city.country.name = 'Canada'&order=id&limit=1000",
        members: &["id", "email"],
        rust: in_rust::customers_in_canada,
    },
    Question {
        name: "films for families",
        sql: "SELECT f.title FROM film f WHERE EXISTS (SELECT 1 FROM film_category x JOIN category c \
              ON c.id = x.category WHERE x.film = f.id AND c.name = 'Family') ORDER BY f.id",
        rest: "/api/film?filter=any(categories, name = 'Family')&order=id&limit=1000",
        members: &["title"],
        rust: in_rust::films_for_families,
    },
    Question {
        name: "the ten films rented most",
        sql: "SELECT f.title, count(*) FROM rental r JOIN inventory i ON i.id = r.inventory \
              JOIN film f ON f.id = i.film GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        rest: "/api/rental?group=inventory.film.title&select=count&order=-count&limit=10",
        members: &["inventory_film_title", "count"],
        rust: in_rust::films_rented_most,
    },
    Question {
        name: "the business of each shop",
        sql: "SELECT s.shop, sum(p.amount), count(*) FROM payment p JOIN staff s ON s.id = p.staff \
              GROUP BY 1 ORDER BY 1",
        rest: "/api/payment?group=staff.shop&select=sum(amount),count",
        members: &["staff_shop", "sum_amount", "count"],
        rust: in_rust::business_of_shops,
    },
    Question {
        name: "the shops with city and country",
        sql: "SELECT s.id, t.name, n.name FROM shop s JOIN address a ON a.id = s.address JOIN city t \
              ON t.id = a.city JOIN country n ON n.id = t.country ORDER BY s.id",
        rest: "/api/shop?order=id&expand=address(fields=city,expand=city(fields=name,country,\
               expand=country(fields=name)))",
        members: &[
            "id",
            "expand/address/expand/city/name",
            "expand/address/expand/city/expand/country/name",
        ],
        rust: in_rust::places_of_shops,
    },
    Question {
        name: "the number of films of each category",
        sql: "SELECT c.name, count(*) FROM film_category x JOIN category c ON c.id = x.category \
              GROUP BY 1 ORDER BY 1",
        rest: "/api/film_category?group=category.name&select=count",
        members: &["category_name", "count"],
        rust: in_rust::films_by_category,
    },
    Question {
        name: "the mean length of films of a category",
        sql: "SELECT round(avg(f.length), 4) FROM film f JOIN film_category x ON x.film = f.id \
              JOIN category c ON c.id = x.category WHERE c.name = 'Horror'",
        rest: "/api/film?filter=any(categories, name = 'Horror')&select=avg(length)",
        members: &["avg_length"],
        rust: in_rust::length_of_horror,
    },
    Question {
        name: "lengths by rating",
        sql: "SELECT rating, round(avg(length), 4), min(length), max(length) FROM film GROUP BY 1 \
              ORDER BY rating COLLATE \"C\"",
        rest: "/api/film?group=rating&select=avg(length),min(length),max(length)",
        members: &["rating", "avg_length", "min_length", "max_length"],
        rust: in_rust::lengths_by_rating,
    },
    Question {
        name: "rentals of 2005 that were not returned, with the customer",
        sql: "SELECT r.id, c.last_name FROM rental r JOIN customer c ON c.id = r.customer \
              WHERE r.return_date IS NULL AND r.rental_date < '2006-01-01' ORDER BY r.id",
        rest: "/api/rental?filter=return_date = null and rental_date < '2006-01-01'&order=id&limit=1000\
               &expand=customer(fields=last_name)",
        members: &["id", "expand/customer/last_name"],
        rust: in_rust::rentals_not_returned,
    },
    Question {
        name: "films without a copy",
        sql: "SELECT id, title FROM film f WHERE NOT EXISTS (SELECT 1 FROM inventory i WHERE i.film = f.id) \
              ORDER BY id",
        rest: "/api/film?filter=none(inventory)&order=id&limit=1000",
        members: &["id", "title"],
        rust: in_rust::films_without_a_copy,
    },
    Question {
        name: "copies that were never rented",
        sql: "SELECT i.id FROM inventory i WHERE NOT EXISTS (SELECT 1 FROM rental r WHERE r.inventory = i.id) \
              ORDER BY i.id",
        rest: "/api/inventory?filter=none(rental)&order=id&fields=id&limit=1000",
        members: &["id"],
        rust: in_rust::copies_never_rented,
    },
    Question {
        name: "customers with more than 38 rentals",
        sql: "SELECT c.id FROM customer c WHERE (SELECT count(*) FROM rental r WHERE r.customer = c.id) > 38 \
              ORDER BY c.id",
        rest: "/api/customer?filter=count(rental) > 38&order=id&fields=id&limit=1000",
        members: &["id"],
        rust: in_rust::frequent_customers,
    },
    Question {
        name: "the ten countries with the most customers",
        sql: "SELECT n.name, count(*) FROM customer c JOIN address a ON a.id = c.address JOIN city t \
              ON t.id = a.city JOIN country n ON n.id = t.country GROUP BY 1 \
              ORDER BY 2 DESC, n.name COLLATE \"C\" LIMIT 10",
        rest: "/api/customer?group=address.city.country.name&select=count&order=-count&limit=10",
        members: &["address_city_country_name", "count"],
        rust: in_rust::customers_by_country,
    },
    Question {
        name: "sales by the rating of the film",
        sql: "SELECT f.rating, sum(p.amount), round(avg(p.amount), 4) FROM payment p \
              JOIN rental r ON r.id = p.rental JOIN inventory i ON i.id = r.inventory JOIN film f \
              ON f.id = i.film GROUP BY 1 ORDER BY f.rating COLLATE \"C\"",
        rest: "/api/payment?group=rental.inventory.film.rating&select=sum(amount),avg(amount)",
        members: &["rental_inventory_film_rating", "sum_amount", "avg_amount"],
        rust: in_rust::sales_by_rating,
    },
    Question {
        name: "a customer's payments with the titles of the films",
        sql: "SELECT p.id, p.amount, f.title FROM payment p JOIN rental r ON r.id = p.rental \
              JOIN inventory i ON i.id = r.inventory JOIN film f ON f.id = i.film \
              WHERE p.customer = 7 ORDER BY p.id",
        rest: "/api/payment?customer=7&order=id&expand=rental(fields=inventory,\
               expand=inventory(fields=film,expand=film(fields=title)))",
        members: &["id", "amount", "expand/rental/expand/inventory/expand/film/title"],
        rust: in_rust::payments_of_a_customer,
    },
    Question {
        name: "actors in more than 35 films",
        sql: "SELECT a.id FROM actor a WHERE (SELECT count(*) FROM film_actor x WHERE x.actor = a.id) > 35 \
              ORDER BY a.id",
        rest: "/api/actor?filter=count(film_actor) > 35&order=id&fields=id",
        members: &["id"],
        rust: in_rust::busy_actors,
    },
    Question {
        name: "rental rates by language",
        sql: "SELECT l.name, count(*), round(avg(f.rental_rate), 4) FROM film f JOIN language l \
              ON l.id = f.language GROUP BY 1 ORDER BY 1",
        rest: "/api/film?group=language.name&select=count,avg(rental_rate)",
        members: &["language_name", "count", "avg_rental_rate"],
        rust: in_rust::rates_by_language,
    },
    Question {
        name: "copies of each shop by rating",
        sql: "SELECT i.shop, f.rating, count(*) FROM inventory i JOIN film f ON f.id = i.film \
              GROUP BY 1, 2 ORDER BY 1, f.rating COLLATE \"C\"",
        rest: "/api/inventory?group=shop,film.rating&select=count",
        members: &["shop", "film_rating", "count"],
        rust: in_rust::copies_by_rating,
    },
    Question {
        name: "customers of a shop by city, who are not active",
        sql: "SELECT c.id FROM customer c JOIN address a ON a.id = c.address JOIN city t \
              ON t.id = a.city WHERE NOT c.active AND c.shop = 1 ORDER BY t.name COLLATE \"C\", c.id",
        rest: "/api/customer?filter=active = false and shop = 1&order=address.city.name,id\
               &fields=id&limit=1000",
        members: &["id"],
        rust: in_rust::inactive_customers,
    },
];
