// What shells print for a signal in other languages: the words of the C library's and of bash's own
// translations. ASCII letters in lower case, others as they are printed.

#include "explain/detect/forms.h"

namespace plimsoll::explain {
namespace {

constexpr std::string_view kKills[] = {
    "Забіты",
    "Убит",
    "Безусловно прекъснат",
    "mort",
    "matat",
    "zabit",
    "zabit (sigkill)",
    "slået ihjel",
    "dræbt",
    "abgebrochen (killed)",
    "getötet",
    "Σκοτώθηκε",
    "murdu",
    "buĉita",
    "matado",
    "terminado (killed)",
    "tapettu",
    "tué",
    "processus arrêté",
    "maraithe",
    "ubijen",
    "kilőve",
    "dibunuh",
    "terbunuh",
    "ucciso",
    "強制終了",
    "죽었음",
    "nutraukta (killed)",
    "drept",
    "geëlimineerd",
    "unicestwiony",
    "morto",
    "morto (killed)",
    "omorât",
    "Убито",
    "zabitý",
    "uničen",
    "pobit",
    "Убијен",
    "dödad",
    "Öldürüldü",
    "süreç durduruldu",
    "Вбитий",
    "Вбито",
    "bị giết",
    "bị buộc kết thúc",
    "已杀死",
    "強制結束",
};

constexpr std::string_view kBusErrors[] = {
    "Ошибка шины",
    "bus-zugriffsfehler",
    "error del bus",
    "erreur du bus",
    "errore di bus",
    "erro de bus",
    "erro no barramento",
    "error de bus",
    "busfejl",
    "bussfeil",
    "busfout",
    "bussfel",

    "błąd szyny",
    "busz hiba",
    "バスエラー",

    "总线错误",

    "veri yolu hatası",
};

}  // namespace

std::span<const std::string_view> translated_kills() { return kKills; }
std::span<const std::string_view> translated_bus_errors() { return kBusErrors; }

}  // namespace plimsoll::explain
