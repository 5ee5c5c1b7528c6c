"""Spanish phrases."""

from __future__ import annotations

from typing import Final

from mail.llm.vocabulary.concepts import Concept, Phrases

PHRASES: Final[Phrases] = {
    Concept.DIRECT_QUESTION: (
        "puede usted", "podría usted", "podría", "podrían", "puedes", "podrías", "pueden ustedes", "tiene usted",
        "sería posible", "es posible", "qué le parece", "qué te parece", "qué opina", "sabe si", "sabes si",
        "quería preguntar", "quisiera preguntar", "quisiera saber", "me gustaría saber", "tengo una pregunta",
        "tengo una duda", "cuándo podemos", "cuánto cuesta", "cuándo estará",
    ),
    Concept.REQUEST: (
        "por favor envíe", "por favor envíen", "por favor envía", "le ruego", "les ruego", "le agradecería",
        "les agradecería", "agradeceríamos", "le pido", "hágame saber", "háganos saber", "avíseme", "avísame",
        "avísenos", "dígame", "quedo a la espera", "quedamos a la espera", "a la espera de su",
        "espero su respuesta", "esperamos su respuesta", "espero tu respuesta", "necesito que", "necesitamos que",
        "necesito su", "necesitamos su", "envíeme", "envíenos", "envíame", "mándame", "póngase en contacto",
        "llámeme", "llámame", "su respuesta", "su opinión",
    ),
    Concept.DEADLINE: (
        "a más tardar", "fecha límite", "antes del viernes", "antes del lunes", "para el viernes",
        "para mañana", "antes de fin", "lo antes posible", "cuanto antes", "urgente*", "plazo",
        "caduca el", "vence el plazo", "último aviso", "acción requerida",
    ),
    Concept.MEETING: (
        "reunión", "reuniones", "cita", "entrevista", "videollamada", "videoconferencia", "invitación",
        "llamada telefónica",
    ),
    Concept.PROPOSAL: (
        "podemos reunirnos", "podríamos reunirnos", "nos reunimos", "está disponible", "estás disponible",
        "su disponibilidad", "tu disponibilidad", "le viene bien", "te viene bien", "les viene bien",
        "concertar una", "agendar una", "programar una", "fijar una", "le invitamos", "les invitamos",
        "te invitamos", "aplazar la reunión", "cambiar la reunión", "le propongo", "te propongo",
    ),
    Concept.DAY: ("lunes", "martes", "miércoles", "jueves", "viernes", "mañana", "próxima semana", "horas"),
    Concept.SIGNATURE: (
        "para firmar", "firmar el", "firmar la", "para su firma", "su firma", "por favor firme", "firmado y",
        "firmada y", "devolver firmado", "copia firmada", "firme el", "firme la",
    ),
    Concept.APPROVAL: (
        "para su aprobación", "su aprobación", "tu aprobación", "para aprobación", "por favor apruebe",
        "aprobar el", "aprobar la", "su visto bueno", "tu visto bueno", "dar el visto bueno", "su autorización",
        "pendiente de aprobación",
    ),
    Concept.CONFIRMATION: (
        "por favor confirme", "confirme", "confirmar si", "puede confirmar", "podría confirmar", "confírmeme",
        "confírmame", "rogamos confirmen", "por favor complete", "por favor rellene", "por favor verifique",
    ),
    Concept.INVOICE: ("factura", "facturas", "facturación", "proforma"),
    Concept.INVOICE_SENT: (
        "adjunto la factura", "adjuntamos la factura", "adjunto nuestra factura", "adjuntamos nuestra factura",
        "adjunto factura", "factura adjunta", "le enviamos la factura", "su factura", "nuestra factura", "tu factura",
    ),
    Concept.DUE: (
        "vencimiento", "vence el", "fecha de vencimiento", "importe a pagar", "a pagar", "por pagar",
        "importe total", "realice el pago", "realizar el pago", "efectuar el pago", "proceder al pago",
        "solicitud de pago", "abonar", "condiciones de pago",
    ),
    Concept.OVERDUE: (
        "vencida", "vencidas", "impagada", "impagadas", "impago", "pendiente de pago", "pago pendiente",
        "recordatorio de pago", "no hemos recibido su pago", "no hemos recibido el pago", "pago rechazado",
    ),
    Concept.BANK_DETAILS: ("transferencia", "número de cuenta", "datos bancarios"),
    Concept.PAID: (
        "pago recibido", "hemos recibido su pago", "hemos recibido el pago", "gracias por su pago",
        "gracias por tu pago", "confirmación de pago", "ha sido pagada", "ha sido abonada", "ya pagada",
        "pago realizado", "pago efectuado", "pago completado", "recibo de pago", "recibo de su pago",
        "factura pagada", "nota de crédito",
    ),
    Concept.NO_ACTION: (
        "no responda", "no respondas", "no responder", "mensaje automático", "generado automáticamente",
        "no es necesario responder", "no se requiere", "no hace falta que", "no requiere respuesta",
    ),
    Concept.FOR_INFORMATION: (
        "para su información", "para tu información", "a título informativo", "le informamos", "les informamos",
        "ha sido enviado", "ha sido entregado", "acta de la reunión", "solo para informar",
    ),
    Concept.MARKETING: (
        "darse de baja", "darte de baja", "cancelar suscripción", "cancelar la suscripción", "boletín",
        "newsletter", "ver en el navegador", "ver en navegador", "descuento", "oferta especial", "promoción",
        "seminario web",
    ),
    Concept.ABSENCE: (
        "fuera de la oficina", "respuesta automática", "estoy de vacaciones", "estaré de vacaciones",
        "ausente de la oficina",
    ),
    Concept.THANKS: ("muchas gracias por su ayuda", "muchas gracias por tu ayuda", "muchas gracias", "recibido gracias", "tomo nota", "perfecto gracias"),
    Concept.ORDER_TO_CLASSIFIER: (
        "ignora las instrucciones", "ignore las instrucciones", "ignora todas", "ignore todas",
        "instrucciones anteriores", "olvida las instrucciones", "clasifica este", "clasifique este",
        "modelo de lenguaje",
    ),
    Concept.FORMAL: ("estimado señor", "estimada señora", "muy señor", "muy señores", "atentamente"),
    Concept.INFORMAL: ("hola", "un abrazo", "besos", "qué tal"),
}  # fmt: skip
