"""``python -m mooring.audit``: audit the catalogue and print the page 'Which virtual node do I need?'."""

from mooring.audit.catalogue import QUESTIONS, cards, cards_markdown, entries

if __name__ == "__main__":
    print(cards_markdown(list(cards()), {entry.name: entry.origin for entry in entries()}, QUESTIONS), end="")
