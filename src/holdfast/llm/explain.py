"""Error messages for people: who failed, where, and how to fix it. They never hold a credential, a path or a query.

Every failure of a turn passes `explain` once, so the durable record, the live error and the terminal show the same."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.llm.errors import MODEL_NOT_FOUND, Answered, LLMError

if TYPE_CHECKING:
    from holdfast.http.url import Origin
    from holdfast.llm.event import ProviderError
    from holdfast.llm.model import Model


def explain(error: LLMError, model: Model) -> None:
    """Reword the error. The provider's own message stays in it."""
    if (message := _explained(error, model)) is not None:
        error.reword(message)


def reported(event: ProviderError, model: Model) -> LLMError:
    """An error event of a stream as an LLMError."""
    error = LLMError(
        event.reason,  # type: ignore[arg-type]
        event.message,
        kind="invalid" if event.reason == "Authentication" else None,
        classification=event.classification,
        retryable=event.retryable,
        usage=event.usage,
        answered=Answered(code=event.code, retry_after_ms=event.retry_after_ms),
    )
    explain(error, model)
    return error


def _explained(error: LLMError, model: Model) -> str | None:
    who = model.provider
    status = f" (HTTP {error.status})" if error.status is not None else ""
    words = error.said if error.status is not None else error.message
    said = f"{status}: {_sentence(words)}" if words else f"{status}."
    match error.reason, error.kind:
        # A credential that is refused before it is sent has no kind; its message says why.
        case "Authentication", "missing":
            return f"No credential for {who}. {model.credential_fix}" if model.credential_fix else None
        case "Authentication", "insufficient-permissions":
            return _joined(f"The credential of {who} does not permit this{said}", model.credential_fix)
        case "Authentication", "expired":
            return _joined(f"The credential of {who} has expired{said}", model.credential_fix)
        case "Authentication", "invalid":
            return _joined(f"{who} did not accept the credential{said}", model.credential_fix)
        case "QuotaExceeded", _:
            return f"The quota or the credit of {who} is used up{said} Look at the plan and billing of its account."
        case "RateLimit", _:
            return f"{who} limits the rate of requests{said}"
        case "ProviderInternal", _:
            overloaded = error.status in (503, 529) or "overload" in words.lower()
            return f"{who} {'is overloaded' if overloaded else 'failed'}{said}"
        case "InvalidRequest", kind if kind == MODEL_NOT_FOUND:
            return f"{who} has no model {model.id}{said} `holdfast models {who}` lists the known ones."
        case "InvalidRequest", _ if error.status == 404:
            where = f" at {host}" if (host := host_of(model.route.base_url)) else ""
            return (
                f"{who} found nothing{where}{said} The address (options.baseURL) or the model {model.id} may be wrong; "
                f"`holdfast models {who}` lists the known models."
            )
    return None


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


# -- the network ---------------------------------------------------------------------------------------------------


def host_of(url: str) -> str:
    """Host and port of an address, without credentials, path and query."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def unreachable(origin: Origin, error: OSError) -> LLMError:
    """No connection, or a connection without a response."""
    lasting = isinstance(error, ssl.SSLCertVerificationError)
    text = f"Cannot reach {place(origin)}: {network_cause(error)}"
    return LLMError("Transport", text, kind="connect", retryable=not lasting)


def place(origin: Origin) -> str:
    proxy = host_of(origin.proxy if "://" in origin.proxy else f"//{origin.proxy}") if origin.proxy else ""
    return f"{origin.authority} through the proxy {proxy}" if proxy else origin.authority


def network_cause(error: OSError) -> str:
    match error:
        case socket.gaierror():
            return f"its name could not be resolved ({error.strerror})"
        case ssl.SSLCertVerificationError():
            return f"its TLS certificate was not accepted ({getattr(error, 'verify_message', '') or error})"
        case ssl.SSLError():
            return f"TLS failed ({getattr(error, 'reason', None) or error})"
        case ConnectionRefusedError():
            return "the connection was refused"
        case _ if error.errno is not None:
            return error.strerror or str(error)
        case _:
            return str(error) or type(error).__name__
