"""English phrases."""

from __future__ import annotations

from typing import Final

from mail.llm.vocabulary.concepts import Concept, Phrases

PHRASES: Final[Phrases] = {
    Concept.DIRECT_QUESTION: (
        "could you", "can you", "would you", "will you", "do you", "did you", "are you", "have you",
        "what do you think", "what is your", "what are your", "any news", "any update", "any idea",
        "i was wondering", "we were wondering", "is it possible", "would it be possible", "may i ask",
        "when can we expect", "how much", "how long", "which one",
    ),
    Concept.REQUEST: (
        "please send", "please let", "please tell", "please provide", "please reply", "please respond",
        "please advise", "please help", "please share", "please forward", "please check",
        "please have a look", "please contact", "please call", "please get back", "please explain",
        "let me know", "let us know", "get back to me", "get back to us", "look forward to your reply",
        "looking forward to your reply", "looking forward to hearing", "look forward to hearing",
        "waiting for your", "awaiting your", "i would like to ask", "i'd like to ask",
        "we would like to ask", "i need your", "we need your", "i need you to", "we need you to",
        "could use your help", "send me", "send us", "your thoughts", "your opinion", "your feedback",
        "would appreciate", "i would be grateful", "reply to this email with", "kindly",
    ),
    Concept.DEADLINE: (
        "deadline", "no later than", "at the latest", "by the end of", "by end of", "by tomorrow",
        "by monday", "by tuesday", "by wednesday", "by thursday", "by friday", "by noon", "by cob",
        "by eod", "asap", "as soon as possible", "urgent*", "time sensitive", "expires on",
        "expires in", "will expire", "before friday", "before monday", "last day to", "final reminder",
        "must be submitted", "must be completed", "action required", "action needed",
    ),
    Concept.MEETING: (
        "meeting", "meetings", "appointment", "appointments", "interview", "interviews", "video call",
        "phone call", "conference call", "kick off", "catch up call", "site visit", "invitation",
    ),
    Concept.PROPOSAL: (
        "can we meet", "could we meet", "shall we meet", "let's meet", "like to meet", "meet up",
        "are you available", "are you free", "your availability", "would you be available",
        "does that time", "does this time", "time slot", "time slots", "would suit you", "does that suit",
        "that work for you", "this work for you", "time works for you", "date works for you", "day works for you", "schedule a call", "schedule a meeting", "arrange a meeting",
        "arrange a call", "set up a meeting", "set up a call", "book a meeting", "reschedule",
        "invited to", "invite you to", "please join", "join us for", "please attend", "rsvp",
        "have a call", "hop on a call", "jump on a call",
    ),
    Concept.DAY: (
        "monday", "tuesday", "wednesday", "thursday", "friday", "tomorrow", "next week", "o'clock",
        "this week",
    ),
    Concept.SIGNATURE: (
        "please sign", "sign and return", "signed copy", "need your signature", "your signature",
        "for signature", "to be signed", "can you sign", "could you sign", "sign this for", "sign it for", "signature required", "signature requested", "requires your signature",
        "ready to sign", "sign the contract", "sign the agreement", "countersign*", "e-signature",
        "requested your signature", "sign the attached", "sign this document", "sign it and",
    ),
    Concept.APPROVAL: (
        "please approve", "for your approval", "need your approval", "needs your approval",
        "approval required", "approval requested", "approval needed", "requires your approval",
        "awaiting your approval", "waiting for your approval", "approve or reject", "can you approve",
        "could you approve", "sign off on", "your sign off", "please authorise", "please authorize",
        "request for approval", "approve the", "approve this",
    ),
    Concept.CONFIRMATION: (
        "please confirm", "confirm your", "could you confirm", "can you confirm", "confirm by",
        "confirm whether", "confirm that you", "kindly confirm", "please verify", "please complete",
        "please fill", "fill in the", "fill out the", "please review and",
    ),
    Concept.INVOICE: ("invoice", "invoices", "invoiced", "proforma", "pro forma", "billing statement"),
    Concept.INVOICE_SENT: (
        "attached invoice", "attached our invoice", "attached is our invoice", "attached the invoice",
        "find our invoice", "find attached invoice", "invoice attached", "invoice is attached",
        "your invoice", "new invoice", "enclosed invoice", "invoice for your", "invoice is ready",
        "invoice is now available", "deposit invoice",
    ),
    Concept.DUE: (
        "payment due", "due date", "amount due", "balance due", "total due", "is due on", "due on",
        "due by", "please pay", "payable", "to be paid", "payment terms", "pay by", "please transfer",
        "please remit", "payment request", "requesting payment", "pay now", "make a payment",
        "make the payment", "settle the", "arrange payment", "arrange the payment", "pay online",
    ),
    Concept.OVERDUE: (
        "overdue", "past due", "unpaid", "outstanding balance", "outstanding invoice",
        "outstanding payment", "payment reminder", "not yet received your payment",
        "not received payment", "payment failed", "could not be charged", "remains open",
    ),
    Concept.BANK_DETAILS: ("iban", "swift", "bic", "sort code", "account number", "bank details", "bank transfer"),
    Concept.PAID: (
        "payment received", "received your payment", "payment has been received",
        "thank you for your payment", "thanks for your payment", "payment confirmation",
        "payment successful", "payment was successful", "has been paid", "was paid", "paid in full",
        "your receipt", "receipt for your payment", "payment receipt", "we have paid", "we've paid",
        "payment has been sent", "payment processed", "successfully charged", "refund has been",
        "no payment is due", "no payment is required", "nothing to pay", "already paid",
        "remittance advice", "credit note",
    ),
    Concept.NO_ACTION: (
        "no action required", "no action is required", "no action needed", "no action is needed",
        "no need to reply", "no reply needed", "no reply is needed", "no reply necessary", "no reply is necessary",
        "no response needed", "no response is needed",
        "no response required", "do not reply", "don't reply", "not monitored", "automated message",
        "automatically generated", "automatic email", "automated email", "automatic notification",
        "nothing to do on your",
    ),
    Concept.FOR_INFORMATION: (
        "fyi", "for your information", "for information only", "just to let you know", "just letting you know",
        "for your records", "heads up", "please note that", "we would like to inform", "we inform you",
        "has been shipped", "has been dispatched", "has been delivered", "has shipped",
        "meeting minutes", "minutes of the",
    ),
    Concept.MARKETING: (
        "unsubscribe", "newsletter", "view in browser", "view this email in", "view online",
        "opt out", "email preferences", "manage preferences", "manage your subscription",
        "limited time", "special offer", "discount code", "webinar", "free trial", "click here",
        "removed from our", "from our mailing list", "from this mailing list", "our newsletter", "this week in", "weekly digest", "daily digest",
        "act now", "money back", "risk free", "satisfaction guarantee*", "order now", "buy now", "shop now",
        "free shipping", "lowest price*", "best price*", "to be removed", "be excluded from", "wish to receive",
        "no longer wish", "stop receiving", "this is not spam", "removal instructions", "one time mailing",
        "you are receiving this", "you received this", "you have received this e-mail because", "all rights reserved",
        "terms and conditions apply", "earn money", "make money", "100 free", "absolutely free", "no obligation",
    ),
    Concept.ABSENCE: (
        "out of office", "out of the office", "on annual leave", "on vacation", "on holiday until",
        "automatic reply", "autoreply", "auto reply", "limited access to email", "maternity leave",
    ),
    Concept.THANKS: ("thanks for your help", "thank you for your help", "many thanks", "thank you very much", "got it", "sounds good", "well received", "noted with thanks", "thanks again", "great thanks", "perfect thanks", "thanks a lot"),
    Concept.ORDER_TO_CLASSIFIER: (
        "ignore previous instructions", "ignore all previous", "ignore the previous", "ignore your instructions",
        "ignore all instructions", "ignore any previous", "ignore the above", "ignore all prior", "ignore prior",
        "disregard previous", "disregard all previous", "disregard the above", "disregard your", "disregard all prior",
        "forget your instructions", "forget all previous", "forget previous", "forget everything above",
        "override your instructions", "system prompt",
        "you are an ai", "you are a language model", "as an ai", "as a language model",
        "classify this", "classify it as", "classify as", "mark this email as",
        "mark this message as", "label this email", "label this message", "categorize this", "categorise this",
        "assistant must", "to the classifier", "email classifier",
    ),
    Concept.FORMAL: ("dear sir", "dear madam", "dear mr", "dear mrs", "dear ms", "to whom it may concern", "yours faithfully", "yours sincerely"),
    Concept.INFORMAL: ("hi", "hey", "hiya", "cheers", "lol", "btw", "xx"),
}  # fmt: skip
