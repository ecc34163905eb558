"""A worked example of a simulated service, as a designer sees it: small, complete, and admitted."""

LENDING = r'''
import random
from typing import Literal


class LendingDeskEnv(ToolUseBaseEnv):
    TITLES = ["Tides", "Bridges", "Lanterns", "Orchards", "Glaciers", "Looms"]
    NAMES = ["Ada Brun", "Bruno Celik", "Chiara Dorn", "Dmitri Engel", "Esme Farkas"]

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        cards = [f"R{number}" for number in rng.sample(range(100, 1000), len(self.NAMES))]
        copies = [f"K{number}" for number in rng.sample(range(100, 1000), len(self.TITLES))]
        titles = rng.sample(self.TITLES, len(self.TITLES))
        late = rng.sample(range(1, 40), 3)
        readers = {card: {"name": name, "fee": 0} for card, name in zip(cards, rng.sample(self.NAMES, 5))}
        books = {copy: {"title": title, "reader": "", "late": 0} for copy, title in zip(copies, titles)}
        self.reader, self.wanted = cards[0], copies[3]
        readers[self.reader]["fee"] = rng.randint(2, 9)
        for copy, days in zip(copies[:3], late):
            books[copy].update(reader=self.reader, late=days)
        books[copies[4]].update(reader=cards[1], late=rng.randint(40, 60))
        self.latest = max(copies[:3], key=lambda copy: books[copy]["late"])
        self._state = {"readers": readers, "books": books, "looked_at": [], "terms": {}}
        self._user_messages = [
            f"{readers[self.reader]['name']} is at the desk. Please look what is out on that card.",
            "The copy that is most overdue has just been handed in; book it back.",
            f"And {books[self.wanted]['title']} may go home with the same reader, for a month.",
        ]
        self._message_criteria = [
            lambda state: self.reader in state["looked_at"],
            lambda state: state["books"][self.latest]["reader"] == "",
            lambda state: state["books"][self.wanted]["reader"] == self.reader
            and state["terms"].get(self.wanted) == "month",
        ]
        return self._user_messages[0], {}

    def tool_find_reader(self, name: str) -> list:
        """Find the cards of readers by a part of their name."""
        readers = self._state["readers"]
        return [card for card in sorted(readers) if name and name.lower() in readers[card]["name"].lower()]

    def tool_find_book(self, title: str) -> list:
        """Find copies by a part of their title."""
        books = self._state["books"]
        return [copy for copy in sorted(books) if title and title.lower() in books[copy]["title"].lower()]

    def tool_show_card(self, card: str) -> dict:
        """Show what a reader owes, and the copies that are out on the card with their days overdue."""
        if card not in self._state["readers"]:
            return {"error": f"There is no card {card}."}
        self._state["looked_at"].append(card)
        out = {copy: book["late"] for copy, book in self._state["books"].items() if book["reader"] == card}
        return {"fee": self._state["readers"][card]["fee"], "overdue": out}

    def tool_settle_fee(self, card: str) -> str:
        """Enter that a reader has paid all fees."""
        if card not in self._state["readers"]:
            return f"There is no card {card}."
        self._state["readers"][card]["fee"] = 0
        return f"Card {card} owes nothing."

    def tool_take_back(self, copy: str) -> str:
        """Book a copy back that was out."""
        book = self._state["books"].get(copy)
        if book is None or not book["reader"]:
            return f"No copy {copy} is out."
        if self._state["readers"][book["reader"]]["fee"]:
            return f"Refused: card {book['reader']} owes a fee, which has to be settled first."
        book.update(reader="", late=0)
        return f"Copy {copy} is back."

    def tool_lend(self, copy: str, card: str, term: Literal["week", "month"]) -> str:
        """Lend a copy that is on the shelf to a reader, for a term."""
        book = self._state["books"].get(copy)
        if book is None or card not in self._state["readers"]:
            return "There is no such copy, or no such card."
        if book["reader"]:
            return f"Copy {copy} is out; it can be reserved."
        book["reader"] = card
        self._state["terms"][copy] = term
        return f"Copy {copy} is lent to {card} for a {term}."

    def tool_reserve(self, copy: str, card: str) -> str:
        """Put a reader on the waiting list of a copy that is out. Lends nothing."""
        return f"Card {card} waits for copy {copy}."

    def solution(self) -> list[tuple[str, dict]]:
        reader, wanted = self._state["readers"][self.reader]["name"], self._state["books"][self.wanted]["title"]
        return [
            ("find_reader", {"name": reader}),
            ("show_card", {"card": self.reader}),
            ("settle_fee", {"card": self.reader}),
            ("take_back", {"copy": self.latest}),
            ("find_book", {"title": wanted}),
            ("lend", {"copy": self.wanted, "card": self.reader, "term": "month"}),
        ]
'''
