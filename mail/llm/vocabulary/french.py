"""French phrases."""

from __future__ import annotations

from typing import Final

from mail.llm.vocabulary.concepts import Concept, Phrases

PHRASES: Final[Phrases] = {
    Concept.DIRECT_QUESTION: (
        "pouvez-vous", "pourriez-vous", "peux-tu", "pourrais-tu", "avez-vous", "as-tu", "êtes-vous",
        "serait-il possible", "est-il possible", "est-ce que vous", "qu'en pensez-vous", "savez-vous",
        "je voulais savoir", "je voudrais savoir", "j'aimerais savoir", "j'ai une question", "quand pouvez",
        "quel est votre", "combien",
    ),
    Concept.REQUEST: (
        "merci de nous", "merci de me", "merci de bien vouloir", "veuillez", "je vous prie de me",
        "nous vous prions de", "tenez-moi au courant", "tiens-moi au courant", "dites-moi", "dis-moi",
        "faites-moi savoir", "faites-nous savoir", "dans l'attente de votre", "en attente de votre",
        "nous attendons votre", "j'attends votre", "j'ai besoin de", "nous avons besoin de",
        "envoyez-moi", "envoyez-nous", "envoie-moi", "contactez-moi", "appelez-moi", "votre retour",
        "votre réponse", "votre avis",
    ),
    Concept.DEADLINE: (
        "au plus tard", "date limite", "avant vendredi", "avant lundi", "d'ici vendredi", "d'ici lundi",
        "d'ici demain", "avant la fin", "d'ici la fin", "dès que possible", "dans les plus brefs délais",
        "urgent*", "expire le", "échéance du dossier", "dernier rappel", "action requise",
    ),
    Concept.MEETING: (
        "réunion", "réunions", "rendez-vous", "entretien", "visioconférence", "invitation", "appel téléphonique",
    ),
    Concept.PROPOSAL: (
        "pouvons-nous nous voir", "pourrions-nous nous", "êtes-vous disponible", "es-tu disponible",
        "seriez-vous disponible", "vos disponibilités", "vous convient", "te convient", "vous conviendrait",
        "fixer un rendez-vous", "prendre rendez-vous", "convenir d'un rendez-vous", "organiser une réunion",
        "vous invite à", "vous invitons", "reporter la réunion", "proposer un créneau", "un créneau",
        "je vous propose",
    ),
    Concept.DAY: ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "demain", "semaine prochaine", "heures"),
    Concept.SIGNATURE: (
        "à signer", "signer le", "signer la", "pour signature", "votre signature", "veuillez signer",
        "merci de signer", "signé et", "contresign*", "retourner signé", "exemplaire signé",
    ),
    Concept.APPROVAL: (
        "pour approbation", "votre approbation", "votre accord", "pour validation", "votre validation",
        "merci de valider", "veuillez valider", "merci d'approuver", "veuillez approuver", "bon pour accord",
        "à valider",
    ),
    Concept.CONFIRMATION: (
        "veuillez confirmer", "merci de confirmer", "pouvez-vous confirmer", "pourriez-vous confirmer",
        "confirmez", "merci de remplir", "veuillez remplir", "veuillez vérifier",
    ),
    Concept.INVOICE: ("facture", "factures", "facturation", "acompte", "avis d'échéance"),
    Concept.INVOICE_SENT: (
        "ci-joint notre facture", "ci-joint la facture", "facture ci-jointe", "facture en pièce jointe",
        "trouverez ci-joint la facture", "trouverez ci-joint notre facture", "votre facture", "notre facture",
        "la facture n",
    ),
    Concept.DUE: (
        "à payer", "à régler", "montant dû", "échéance", "date d'échéance", "règlement sous",
        "merci de régler", "veuillez régler", "payable", "net à payer", "procéder au paiement",
        "procéder au règlement", "montant total", "modalités de paiement",
    ),
    Concept.OVERDUE: (
        "impayé", "impayée", "impayés", "en retard de paiement", "relance", "rappel de paiement",
        "reste due", "pas reçu votre paiement", "pas reçu votre règlement", "paiement refusé",
    ),
    Concept.BANK_DETAILS: ("virement", "coordonnées bancaires", "rib"),
    Concept.PAID: (
        "paiement reçu", "avons bien reçu votre paiement", "avons bien reçu votre règlement",
        "reçu votre paiement", "merci pour votre paiement", "merci de votre paiement", "confirmation de paiement",
        "a été payée", "a été réglée", "déjà payée", "facture acquittée", "paiement effectué",
        "paiement accepté", "reçu de paiement", "avoir n", "virement effectué", "bien réglée",
    ),
    Concept.NO_ACTION: (
        "ne pas répondre", "ne répondez pas", "message automatique", "généré automatiquement",
        "envoyé automatiquement", "aucune action", "aucune réponse", "pas besoin de répondre",
    ),
    Concept.FOR_INFORMATION: (
        "pour information", "à titre d'information", "pour info", "nous vous informons", "je vous informe",
        "a été expédié", "a été expédiée", "a été livré", "compte rendu", "compte-rendu",
    ),
    Concept.MARKETING: (
        "se désabonner", "désabonner", "se désinscrire", "désinscription", "désinscrire", "newsletter",
        "lettre d'information", "version en ligne", "dans votre navigateur", "offre spéciale",
        "code promo", "soldes", "webinaire",
    ),
    Concept.ABSENCE: (
        "absent du bureau", "absente du bureau", "actuellement absent", "actuellement absente",
        "réponse automatique", "en congé", "en congés", "de retour le",
    ),
    Concept.THANKS: ("merci beaucoup", "merci pour votre aide", "merci pour votre retour", "merci pour ces", "bien reçu", "c'est noté", "bien noté"),
    Concept.ORDER_TO_CLASSIFIER: (
        "ignore les instructions", "ignorez les instructions", "ignorez toutes", "ignore toutes",
        "instructions précédentes", "oublie les instructions", "oubliez les instructions", "classe ce message",
        "classez ce message", "classe cet e-mail", "modèle de langage",
    ),
    Concept.FORMAL: ("madame monsieur", "cher monsieur", "chère madame", "veuillez agréer", "salutations distinguées"),
    Concept.INFORMAL: ("salut", "coucou", "bises", "à plus"),
}  # fmt: skip
