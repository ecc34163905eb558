"""Fields of requests that are not supported: the reasons, and the values with which they change nothing."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.gateway.errors import AskError, make_bad_request_error

_SAMPLING = "it would change what is sampled"
_TEXT = "answers are text and calls of tools"
_ONE_LOGPROB = "engines give only the log-probability of the sampled token"
_TEMPLATE = "the prompt is the messages in the checkpoint's template, up to the beginning of a new answer"
_OLD_TOOLS = "it is the old form of tools; use tools and tool_choice"


class Refusal(NamedTuple):
    """The reason why a field is not supported."""

    why: str
    harmless: tuple[Any, ...] = ()
    """With one of these values, or with null, the field changes nothing."""


REFUSALS: Mapping[str, Refusal] = {
    "add_generation_prompt": Refusal(_TEMPLATE, (True,)),
    "allowed_token_ids": Refusal(_SAMPLING, ([],)),
    "audio": Refusal(_TEXT),
    "bad_words": Refusal(_SAMPLING, ([],)),
    "best_of": Refusal("every sampled answer is returned; use n", (1,)),
    "chat_template": Refusal(_TEMPLATE),
    "continue_final_message": Refusal(_TEMPLATE, (False,)),
    "documents": Refusal(_TEMPLATE, ([],)),
    "frequency_penalty": Refusal(_SAMPLING, (0,)),
    "function_call": Refusal(_OLD_TOOLS),
    "functions": Refusal(_OLD_TOOLS, ([],)),
    "guided_choice": Refusal(_SAMPLING),
    "guided_decoding_backend": Refusal(_SAMPLING),
    "guided_grammar": Refusal(_SAMPLING),
    "guided_json": Refusal(_SAMPLING),
    "guided_regex": Refusal(_SAMPLING),
    "ignore_eos": Refusal(_SAMPLING, (False,)),
    "length_penalty": Refusal(_SAMPLING, (1,)),
    "logit_bias": Refusal(_SAMPLING, ({},)),
    "logits_processors": Refusal(_SAMPLING, ([],)),
    "min_p": Refusal(_SAMPLING, (0,)),
    "min_tokens": Refusal(_SAMPLING, (0,)),
    "modalities": Refusal(_TEXT, (["text"],)),
    "parallel_tool_calls": Refusal(_SAMPLING, (True,)),
    "prediction": Refusal("engines cannot use a predicted answer"),
    "presence_penalty": Refusal(_SAMPLING, (0,)),
    "prompt_logprobs": Refusal(_ONE_LOGPROB),
    "reasoning_effort": Refusal(_SAMPLING),
    "repetition_penalty": Refusal(_SAMPLING, (1,)),
    "response_format": Refusal(_SAMPLING, ({"type": "text"},)),
    "skip_special_tokens": Refusal("texts have no control tokens; return_token_ids of a completion has them", (True,)),
    "structured_outputs": Refusal(_SAMPLING),
    "suffix": Refusal("the model writes what follows a prompt, and cannot fill a gap", ("",)),
    "tool_choice": Refusal(_SAMPLING, ("auto", "none")),
    "top_logprobs": Refusal(_ONE_LOGPROB, (0,)),
    "truncate_prompt_tokens": Refusal("no prompt is cut; shorten it"),
    "typical_p": Refusal(_SAMPLING, (1,)),
    "use_beam_search": Refusal(_SAMPLING, (False,)),
    "verbosity": Refusal(_SAMPLING),
    "web_search_options": Refusal("the server cannot search the web"),
}


def check_supported(fields: Mapping[str, Any]) -> None:
    """Raise AskError for a field that is not supported, with the reason."""
    for name, value in fields.items():
        refusal = REFUSALS.get(name)
        if refusal is not None and value is not None and not any(_is_same(value, each) for each in refusal.harmless):
            raise _refuse_unsupported(name, refusal.why)
    _check_logprobs(fields)


def _check_logprobs(fields: Mapping[str, Any]) -> None:
    """Raise AskError for log-probabilities that engines do not return."""
    value = fields.get("logprobs")
    if "prompt" not in fields or isinstance(value, bool) or not isinstance(value, int):
        return
    if value > 1:
        raise _refuse_unsupported("logprobs", f"{_ONE_LOGPROB}, so it can be 0 or 1")
    if fields.get("echo") is True:
        raise _refuse_unsupported(
            "echo", f"with logprobs it asks for log-probabilities of the prompt, but {_ONE_LOGPROB}"
        )


def _refuse_unsupported(name: str, why: str) -> AskError:
    return make_bad_request_error(f"{name} is not supported: {why}", name, "unsupported_parameter")


def _is_same(value: object, other: object) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)
