"""The fixed parts of the prompts in tool use for players, for their coach (the hint), and for the screen."""

SYSTEM = """\
You serve a user by means of the tools below. The user makes one request at a time; the next one stands at the end of \
the result with which the present one is done. Look up what you need to know, and assume nothing. Where no tool can \
serve a request, decline it in the way that the tools offer. When you are told that all requests are done, write \
<answer>done</answer>; it ends the conversation. You have {max_turns} messages for all of it."""

HINTER = (
    "You coach a player who is about to serve a user by means of tools. You have read the program behind the tools; "
    "the player never sees it, and does not know the data of this instance."
)

HINT = r"""
Write one hint of two or three sentences:
- the phases in which the requests are best done, and what each of the tools is for in them;
- which tools look right and mislead, and what stands in the way of a call that is refused.
It has to hold for every seed. State no value of a record or of an argument: no name, number, date, identifier or
search word; the player has to find the arguments by calling tools. Write no code and do not speak of the program.
Reply with the hint alone.
"""

SCREENER = (
    "You review small simulated services before a player is let in. You read the program and a transcript of its own "
    "solution, and you tell whether a player who sees neither could do the same."
)

SCREEN = r"""
Think of a player who is shown the requests one at a time, the tools with their descriptions and arguments, and the
results of the calls, and nothing else. Decide two things:
- Can this player come to know each value that the calls need: does a request state it, or does a result of some call
  that the player has reason to make show it?
- Does each request ask for what its criterion checks: can a player who does what the request says, in any sensible
  way, meet it?
Being hard is no fault: long searches, obstacles, misleading tools and refused calls are all right. A value that can
only be guessed, and a demand that is nowhere stated, are faults.
Name what is wrong in one or two sentences, or say that nothing is. Then end your reply with \boxed{yes} if both hold
for all requests, or with \boxed{no}.
"""
