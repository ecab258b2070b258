//! Names and addresses of people who do not exist.
//!
//! Name and address follow from the number of the certificate alone, and no two certificates share
//! an address. All domains are below names that are reserved for examples (RFC 2606).

/// Given names.
const GIVEN: &str = "
    Ada Adam Adele Agnes Aiko Alan Albert Alejandro Alexander Alice Alma Amina Amir Ana Anders
    Andrea Andrzej Anita Anna Anneke Antonio Aoife Arjun Arno Arthur Asha Astrid Aurora Barbara
    Beatriz Benedikt Benjamin Bernard Birgit Björn Boris Bożena Brigitte Bruno Camille Carla
    Carlos Carmen Caroline Catherine Cecilia Chantal Charles Charlotte Chiara Chloé Christian
    Claire Clara Claudia Clemens Conor Cornelia Dagmar Daniel Daria David Deborah Denis Diana
    Diego Dieter Dimitri Dmitri Dolores Dominik Doris Dorothea Eamon Edith Eduardo Edward
    Eleanor Elena Elias Elisabeth Ella Elsa Emil Emily Emma Eric Erika Esther Eugenia Eva Fatima
    Fabian Federico Felix Fernando Fiona Florian Frances Francesca Franz Frederick Frieda
    Gabriel Gareth Georg Gerda Gianni Gisela Giulia Gonzalo Grace Greta Grzegorz Guillaume
    Gunnar Gustav Hana Hannah Hans Harald Haruka Hassan Heather Heike Heinrich Helen Helga
    Hélène Henrik Hilda Hiroshi Hugo Ian Ibrahim Ida Ignacio Ilse Imre Ines Ingrid Irene Iris
    Isaac Isabel Ivan Jacek Jacob James Jan Jane Jarosław Jasmine Javier Jens Jérôme Jessica
    João Joachim Johanna John Jonas Jorge José Judith Julia Jürgen Kaito Karin Karl Katarina
    Kenji Kerstin Kevin Klara Klaus Konrad Krystyna Kurt Lars Laura Leila Leo Leonie Liam Lidia
    Lin Linda Lorenzo Louise Luca Lucía Ludwig Luis Lukas Łukasz Magda Magnus Maja Manuel Marc
    Marcela Margaret Maria Mario Marit Mark Marta Martin Mateo Mathilde Matteo Maurice Max Mei
    Mehmet Michael Miguel Mikael Mila Mira Miriam Mohamed Monika Morgan Nadia Naomi Natalia
    Nathan Nicole Niels Nina Noah Nora Octavio Olaf Olga Oliver Olivia Oscar Otto Pablo Pascal
    Patricia Paul Paula Pavel Pedro Penelope Peter Petra Philip Pia Pierre Priya Quentin Rachel
    Rafael Rajesh Ralf Raquel Rebecca Renate Ricardo Rita Robert Rolf Rosa Rosalind Rudolf Ruth
    Sabine Salma Samuel Sandra Sara Sebastian Selma Sergei Silvia Simon Sofia Sonja Stefan
    Stella Susan Sven Tamara Tanja Tatiana Tereza Theo Thomas Tim Tomasz Ulrike Ursula Valentina
    Vera Victor Vincent Viola Walter Wendy Werner William Wolfgang Xavier Yara Yasmin Yuki Yusuf
    Yvonne Zara Zoë Zofia";

/// Surnames.
const SURNAMES: &str = "
    Abbott Ackermann Adeyemi Aguilar Ahlberg Albrecht Almeida Alvarez Amsel Andersen Angelov
    Arnold Asplund Bachmann Baker Baldwin Bancroft Barbosa Bartlett Bauer Becker Beaumont
    Benedetti Bennett Berg Bergström Bernardi Bianchi Bishop Blanchard Blom Böhm Bondarenko Borg
    Bouchard Brandt Brennan Brooks Bruun Buchanan Burke Byrne Caldwell Campbell Cardoso Carlsson
    Carpenter Castillo Chandra Chapman Chen Clarke Coleman Colombo Conti Cooper Costa Cruz
    Cunningham Dahl Dalton Danielsen Davies Delgado Deschamps Dietrich Dominguez Donnelly Dubois
    Duarte Duncan Dvořák Eberhardt Eckert Edwards Ekström Eliasson Ellis Engel Eriksen Esposito
    Evans Faber Falk Farrell Faulkner Feld Ferrari Fiedler Fischer Fitzgerald Fletcher Flores
    Fontaine Forster Fournier Franke Frost Fuchs Fuentes Fujita Gallagher Garnier Gauthier
    Geiger Gerber Gibson Gill Glaser Goldberg Gomes Graham Greco Greene Griffin Gruber Guerrero
    Gupta Haas Hagen Hahn Hamilton Hansen Harper Hartmann Hayashi Heikkinen Hellström Henning
    Hernandez Hoffman Holm Horvat Huber Hughes Hunter Ibarra Iversen Ivanov Jacobsen Jankowski
    Jansen Jensen Johansson Jordan Jung Kaiser Kamara Karlsson Kaufmann Keller Kelly Khan Kim
    Kimura Klein Koch Koivisto Kovács Kowalski Kraft Krause Kristensen Kruger Kumar Lambert Lang
    Larsen Laurent Lawson Lehmann Leroy Lewandowski Lindgren Lombardi López Lorenz Lundqvist
    Maier Makinen Malik Mancini Marchetti Marino Marshall Martens Mazur McCarthy Medina Mendes
    Mercier Meyer Mikkelsen Miller Molina Moreau Moretti Mueller Murphy Nagy Nakamura Navarro
    Neumann Nguyen Nielsen Nilsson Novak Nowak Nyström Oberg Ochoa Okafor Oliveira Olsen Ortega
    Osborne Owens Palmer Park Parker Patel Pavlov Pedersen Pellegrini Pereira Petrov Pfeiffer
    Pichler Popov Prieto Quinn Ramos Rasmussen Rees Reinhardt Ricci Richter Rinaldi Rivera
    Robinson Rodrigues Romano Rossi Roth Rousseau Ruiz Russo Salazar Sanders Santos Sato Schäfer
    Schmidt Schneider Schröder Schulz Seidel Serrano Shah Silva Simmons Singh Sjöberg Sokolov
    Sommer Sørensen Stein Sullivan Suzuki Svoboda Szabó Takahashi Tanaka Taylor Thompson Torres
    Tóth Turner Ueda Vaughan Vargas Vasquez Vogel Volkov Wagner Walsh Watanabe Weber Weiss
    Werner Wójcik Wong Yamamoto Yilmaz Young Zhang Ziegler Zimmermann";

/// First parts of domains.
const HOSTS: &str = "
    mail post lists cs math physics chem bio lab devel home office people staff students alumni
    cloud web net relay";

/// Last parts of domains.
const ZONES: &str = "
    example.org example.net example.com north.example south.example lake.example hill.example
    harbour.example campus.example library.example institute.example foundry.example press.example
    society.example works.example garden.example";

/// The lists, cut into words.
pub(crate) struct Names {
    given: Vec<&'static str>,
    surnames: Vec<&'static str>,
    domains: Vec<String>,
}

impl Names {
    pub(crate) fn new() -> Self {
        let domains = ZONES
            .split_whitespace()
            .flat_map(|zone| HOSTS.split_whitespace().map(move |host| format!("{host}.{zone}")))
            .collect();
        Self {
            given: GIVEN.split_whitespace().collect(),
            surnames: SURNAMES.split_whitespace().collect(),
            domains,
        }
    }

    /// User ID number `which` (from 0) of certificate `index`.
    ///
    /// All combinations of name and domain are used before a number is put behind a name.
    pub(crate) fn user_id(&self, index: u64, which: u64) -> String {
        // A step that shares no factor with the number of combinations visits each of them once.
        const STEP: u64 = 1_000_000_007;
        let (given, surnames, domains) =
            (self.given.len() as u64, self.surnames.len() as u64, self.domains.len() as u64);
        let all = given * surnames * domains;
        let (round, place) = (index / all, (index % all) * STEP % all);
        let pick = |list: &[&'static str], at: u64| list[usize::try_from(at).unwrap_or(0)];
        let first = pick(&self.given, place % given);
        let last = pick(&self.surnames, place / given % surnames);
        let domain = |at: u64| &self.domains[usize::try_from(at % domains).unwrap_or(0)];
        let domain_at = place / given / surnames;
        let (local_first, local_last) = (ascii(first), ascii(last));
        if which > 0 {
            let domain = domain(domain_at + 7 * which);
            let initial = &local_first[..1];
            return format!("{first} {last} <{initial}{local_last}{index}@{domain}>");
        }
        let domain = domain(domain_at);
        match round {
            0 => format!("{first} {last} <{local_first}.{local_last}@{domain}>"),
            _ => format!("{first} {last} <{local_first}.{local_last}{round}@{domain}>"),
        }
    }
}

/// A name as it is written in an address.
fn ascii(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            'á' | 'ã' | 'ä' => out.push('a'),
            'č' | 'ç' => out.push('c'),
            'é' | 'è' | 'ë' => out.push('e'),
            'í' => out.push('i'),
            'ł' | 'Ł' => out.push('l'),
            'ó' | 'ö' | 'ø' | 'ô' => out.push('o'),
            'ř' => out.push('r'),
            'ü' => out.push('u'),
            'ż' => out.push('z'),
            c => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Ten million certificates need ten million addresses.
    #[test]
    fn addresses_are_ascii_and_unique() {
        let names = Names::new();
        let (given, surnames) = (names.given.len() as u64, names.surnames.len() as u64);
        let all = given * surnames * names.domains.len() as u64;
        assert!(all > 10_000_000, "{all}");
        assert_eq!(gcd(1_000_000_007, all), 1);
        for list in [&names.given, &names.surnames] {
            let ascii: HashSet<String> = list.iter().map(|name| ascii(name)).collect();
            assert_eq!(ascii.len(), list.len(), "a name is in the list twice");
            assert!(ascii.iter().all(|name| name.is_ascii()), "{ascii:?}");
        }
        let mut seen = HashSet::new();
        for index in (0..5000).chain(all..all + 5000) {
            for which in 0..2 {
                let user_id = names.user_id(index, which);
                let (_, address) = user_id.split_once('<').unwrap();
                assert!(address.is_ascii(), "{user_id}");
                assert!(seen.insert(address.to_owned()), "{user_id}");
            }
        }
    }

    fn gcd(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
}
